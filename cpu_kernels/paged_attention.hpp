// The layouts of paged_attention, read once; the work is in attention/kernel.hpp. A part of a context is a split.
//
// Pages whose tokens are rows (flat_cache, head_major_cache) are rows by a block table; vLLM's have a source of
// their own.
//
// Bytes: K and V of what is visible, once; memory is the limit up to about three query heads a kv head where one fma
// of 16 lanes goes a cycle, six where two do.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/paged_attention.hpp>

#include "cpu_kernels/attention/kernel.hpp"
#include "cpu_kernels/attention/page_source.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

INLAY_INLINE index context_len(const PagedAttention<Host>& op, index b) {
  return op.context_lens.as<std::int32_t>()[b * op.context_lens.strides[0]];
}

// [blocks, kv_heads, block_size] as a scale of [blocks, block_size, kv_heads, 1].
INLAY_INLINE ConstView<4> token_scales(const ConstView<3>& scales) {
  const auto& [blocks, kv_heads, block_size] = scales.extents;
  return {scales.data,
          scales.dtype,
          {blocks, block_size, kv_heads, 1},
          {scales.strides[0], scales.strides[2], scales.strides[1], 1}};
}

template <class Level> AttentionProblem problem_of(const PagedAttention<Host>& op) {
  const auto& keys = op.key_cache;
  const auto& values = op.value_cache;
  const auto [seqs, q_heads, dim] = op.q.extents;
  AttentionProblem p;
  p.batch = seqs;
  p.q_heads = q_heads;
  p.kv_heads = kv_head_count(keys);
  p.q = {op.q.data, op.q.dtype, {seqs, 1, q_heads, dim}, {op.q.strides[0], 0, op.q.strides[1], 1}};
  p.out = {
      op.out.data, op.out.dtype, {seqs, 1, q_heads, op.out.extents[2]}, {op.out.strides[0], 0, op.out.strides[1], 1}};
  if (op.lse.present()) p.lse = {op.lse.data, op.lse.dtype, {seqs, 1, q_heads}, {op.lse.strides[0], 0, 1}};
  p.k = {keys.dtype, dim, keys.strides[0]};
  p.v = {values.dtype, op.out.extents[2], values.strides[0]};
  if (op.key_scales.present()) {
    p.k.scale = token_scales(op.key_scales);
    p.v.scale = token_scales(op.value_scales);
  }
  p.key_scale = op.key_scale;
  p.value_scale = op.value_scale;
  p.block_size = block_size_of(keys);
  p.key_pages = keys;
  p.value_pages = values;
  p.alibi_slopes = op.alibi_slopes;
  p.sinks = op.sinks;
  p.scale = static_cast<float>(score_rule(op, dim).scale);
  p.softcap = op.softcap;
  p.bias_order = op.bias_order;
  p.window_left = op.window_left;
  const index reach = op.max_context_len();
  p.split = op.partition > 0 && op.partition < reach ? op.partition : reach > 0 ? reach : 1;
  p.fours = takes_fours<Level>(p);
  return p;
}

INLAY_INLINE AttentionSequence sequence_of(const PagedAttention<Host>& op, index b, index length) {
  AttentionSequence s;
  s.queries = 1;
  s.keys = length;
  s.position = length - 1;
  s.q_outer = b;
  s.k = {op.key_cache.data, op.key_cache.strides[3], op.key_cache.strides[1]};
  s.v = {op.value_cache.data, op.value_cache.strides[3], op.value_cache.strides[1]};
  s.blocks = op.block_tables.as<std::int32_t>() + b * op.block_tables.strides[0];
  return s;
}

template <class Level>
Status paged_attention(const Parallel& parallel, const PagedAttention<Host>& op, Workspace workspace) {
  const AttentionProblem p = problem_of<Level>(op);
  const auto sequences = [&](index b) { return sequence_of(op, b, context_len(op, b)); };
  const bool rows = op.key_cache.extents[2] == 1 && op.value_cache.extents[2] == 1;
  if (rows)
    attention<Level, RowSource>(p, sequences, parallel, workspace);
  else
    attention<Level, PageSource>(p, sequences, parallel, workspace);
  return {};
}

// Sized by the table, not by this call's lengths: a captured step may see longer ones.
template <class Level> std::size_t paged_attention_scratch(const Parallel& parallel, const PagedAttention<Host>& op) {
  const index reach = op.max_context_len();
  const auto sequences = [&](index b) { return sequence_of(op, b, reach); };
  return attention_scratch_bytes(problem_of<Level>(op), sequences, parallel);
}

template <> struct Kernels<PagedAttention<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const PagedAttention<Host>& op, Workspace workspace) {
    return paged_attention<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel& parallel, const PagedAttention<Host>& op) {
    return paged_attention_scratch<Level>(parallel, op);
  }
};

}  // namespace inlay::cpu
