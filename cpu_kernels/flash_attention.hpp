// The layouts of flash_attention, read once; the work is in attention/kernel.hpp. Scores are summed dim after dim, for
// few queries as for many (attention/columns.hpp): a chunk gives the bits of the whole.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/flash_attention.hpp>

#include "cpu_kernels/attention/kernel.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/without_dots.hpp"

namespace inlay::cpu {

INLAY_INLINE AttentionProblem problem_of(const FlashAttention<Host>& op) {
  AttentionProblem p = attention_problem(op);
  p.batch = op.q_indptr.present() ? op.q_indptr.extents[0] - 1 : op.q.extents[0];
  p.kv_heads = op.k.extents[2];
  p.k.type = op.k.dtype;
  p.k.outer_stride = op.k.strides[0];
  p.v.type = op.v.dtype;
  p.v.outer_stride = op.v.strides[0];
  p.block_size = op.k.extents[1];
  p.bias = op.bias;
  p.mask = op.atten_mask;
  p.window_right = op.causal ? 0 : op.window_right;
  p.split = prompt_split;
  p.in_order = true;
  return p;
}

INLAY_INLINE AttentionSequence sequence_of(const FlashAttention<Host>& op, index b) {
  AttentionSequence s;
  s.queries = query_count(op, b);
  s.keys = key_count(op, b);
  s.position = op.q_start.present() ? entry(op.q_start, b) : s.keys - s.queries;
  s.q_outer = op.q_indptr.present() ? 0 : b;
  s.q_row = op.q_indptr.present() ? entry(op.q_indptr, b) : 0;
  s.k = {op.k.data, op.k.strides[1], op.k.strides[2]};
  s.v = {op.v.data, op.v.strides[1], op.v.strides[2]};
  s.outer = op.kv_indptr.present() ? 0 : b;
  s.row = op.kv_indptr.present() ? entry(op.kv_indptr, b) : 0;
  s.scale_outer = s.outer;
  if (op.block_table.present())
    s.blocks = static_cast<const std::int32_t*>(op.block_table.data) + b * op.block_table.strides[0];
  if (op.packed_mask.present())
    s.packed_mask = static_cast<const unsigned char*>(op.packed_mask.data) + entry(op.mask_indptr, b);
  return s;
}

INLAY_INLINE bool takes_bf16(const FlashAttention<Host>& op) {
  return op.compute == AttentionCompute::bf16_products && op.k.dtype != DType::i8 && op.v.dtype != DType::i8;
}

template <class Level>
Status flash_attention(const Parallel& parallel, const FlashAttention<Host>& op, Workspace workspace) {
  const auto sequences = [&](index b) { return sequence_of(op, b); };
  if constexpr (simd::has_dot_bf16<Level>)
    if (takes_bf16(op)) {
      attention<Level, Bf16RowSource>(problem_of(op), sequences, parallel, workspace);
      return {};
    }
  if constexpr (!std::is_same_v<Level, WithoutDots<Level>>) {
    return compute<WithoutDots<Level>>(parallel, op, workspace);
  } else {
    attention<Level, OrderedRowSource>(problem_of(op), sequences, parallel, workspace);
    return {};
  }
}

template <class Level> std::size_t flash_attention_scratch(const Parallel& parallel, const FlashAttention<Host>& op) {
  const auto sequences = [&](index b) { return sequence_of(op, b); };
  return attention_scratch_bytes(problem_of(op), sequences, parallel);
}

template <> struct Kernels<FlashAttention<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const FlashAttention<Host>& op, Workspace workspace) {
    return flash_attention<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel& parallel, const FlashAttention<Host>& op) {
    return flash_attention_scratch<Level>(parallel, op);
  }
};

}  // namespace inlay::cpu
