// The layouts of incre_flash_attention, read once; the work is in attention/kernel.hpp. Rows are
// few: keys are read where they lie, summed over lanes, and never transposed.
//
// Bytes: K and V once; one fma a register of K or V and row. The limit is memory up to about three rows
// (group * q_len) where one fma of 16 lanes goes a cycle, six where two do.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/incre_flash_attention.hpp>

#include "cpu_kernels/attention/kernel.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

template <class Level> AttentionProblem problem_of(const IncreFlashAttention<Host>& op) {
  AttentionProblem p = attention_problem(op);
  p.batch = op.q.extents[0];
  if (p.batch == 0) return p;
  const ConstView<3> k = op.keys(0), v = op.values(0);
  p.kv_heads = k.extents[1];
  p.k.type = k.dtype;
  p.v.type = v.dtype;
  p.bias = op.pse_shift;
  if (op.atten_mask.present()) {
    const auto& m = op.atten_mask;
    p.mask = {m.data, m.dtype, {m.extents[0], 1, m.extents[1], m.extents[2]}, {m.strides[0], 0, m.strides[1], 1}};
  }
  p.window_right = op.causal ? 0 : -1;
  p.split = decode_split;
  p.out_scale = op.out_scale;
  p.out_offset = op.out_offset;
  p.fours = takes_fours<Level>(p);
  return p;
}

INLAY_INLINE AttentionSequence sequence_of(const IncreFlashAttention<Host>& op, index b) {
  const ConstView<3> k = op.keys(b), v = op.values(b);
  const KeyRange slots = key_slots(op, b);
  AttentionSequence s;
  s.queries = op.q.extents[1];
  s.keys = slots.end - slots.begin;
  s.position = s.keys - s.queries;
  s.q_outer = b;
  s.k = {k.data, k.strides[0], k.strides[1]};
  s.v = {v.data, v.strides[0], v.strides[1]};
  s.row = slots.begin;
  s.scale_outer = b;
  s.column = slots.begin;
  return s;
}

template <class Level>
Status incre_flash_attention(const Parallel& parallel, const IncreFlashAttention<Host>& op, Workspace workspace) {
  const AttentionProblem p = problem_of<Level>(op);
  const auto sequences = [&](index b) { return sequence_of(op, b); };
  attention<Level, RowSource>(p, sequences, parallel, workspace);
  return {};
}

template <class Level>
std::size_t incre_flash_attention_scratch(const Parallel& parallel, const IncreFlashAttention<Host>& op) {
  const auto sequences = [&](index b) { return sequence_of(op, b); };
  return attention_scratch_bytes(problem_of<Level>(op), sequences, parallel);
}

template <> struct Kernels<IncreFlashAttention<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const IncreFlashAttention<Host>& op, Workspace workspace) {
    return incre_flash_attention<Level>(parallel, op, workspace);
  }
  template <class Level>
  static std::size_t scratch_bytes(const Parallel& parallel, const IncreFlashAttention<Host>& op) {
    return incre_flash_attention_scratch<Level>(parallel, op);
  }
};

}  // namespace inlay::cpu
