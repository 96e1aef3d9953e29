// The launch of attention/attend.cl or attention/prefill.cl. A launcher of an operator reads its layouts into an
// Attention, enqueues the kernel of its own that makes sequences of lengths and tables, and hands over.
#pragma once

#include <inlay/core/attention.hpp>
#include <inlay/core/paged_kv.hpp>

#include "cl_kernels/attention/problem.clh"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

struct Attention {
  Problem problem{};
  DType k_type = DType::f32, v_type = DType::f32;
  int k_piece = 0, v_piece = 0;
  bool aligned = false;  // K and V
  bool q_aligned = false;
  bool slots_of_values = false;  // 16 slots and more of a dim of V lie side by side
  // What a unit may hold: rows (query, head of the group) of a kv head, at most, and of all sequences where they are
  // ragged.
  index rows = 1, ragged_rows = 0;
  bool by_chunks = false;  // a row has the same bits beside any others
  index parts = 1;         // of the longest keys, each of problem.split
  BufferArg q, k, v, table{}, bias{}, mask{}, packed{}, slopes{}, sinks{};
  BufferArg k_scale{}, k_offset{}, v_scale{}, v_offset{}, out, lse{}, out_scale{}, out_offset{};
};

// A view [outer, row, head, dim] whose extents of 1 are broadcast.
inline Strides broadcast_strides(const ConstView<4, Cl>& view) {
  const auto step = [&](int d) { return view.extents[d] == 1 ? index{0} : view.strides[d]; };
  return {step(0), step(1), step(2), step(3)};
}
// The same of a view [outer, head, row, dim].
inline Strides head_major_strides(const ConstView<4, Cl>& view) {
  const Strides s = broadcast_strides(view);
  return {s.outer, s.head, s.row, s.dim};
}
// How many dims lie side by side, as kernels distinguish it.
inline int piece_class(index groups, index piece) {
  if (groups == 1) return 0;
  return piece == 16 || piece == 8 || piece == 4 ? static_cast<int>(piece) : 1;
}

// The scales of an i8 K or V [outer, row, head, dim], by which tokens are told apart or not.
template <class Scales> void read_scales(Cached& cached, const Scales& scale, const Scales& offset, bool paged) {
  const auto of_tokens = [&](const Scales& s) { return s.extents[1] > 1 || (paged && s.extents[0] > 1); };
  cached.scale = broadcast_strides(scale);
  cached.offset = broadcast_strides(offset);
  cached.token_scales = scale.present() && of_tokens(scale);
  cached.token_offset = offset.present() && of_tokens(offset);
}

// The fields that all three operators name alike; a head of q has `dim` numbers.
template <class Op> Attention rules_of(const Op& op, index dim) {
  Attention a;
  Problem& p = a.problem;
  p.window_left = op.window_left;
  p.q_type = static_cast<Int>(op.q.dtype);
  p.out_type = static_cast<Int>(op.out.dtype);
  p.scale = p.q_factor = static_cast<float>(score_rule(op, dim).scale);
  p.value_factor = 1;
  p.softcap = op.softcap;
  p.bias_order = static_cast<Int>(op.bias_order);
  a.q = bytes_of(op.q);
  a.out = bytes_of(op.out);
  a.lse = buffer_of(op.lse);
  a.slopes = buffer_of(op.alibi_slopes);
  a.sinks = buffer_of(op.sinks);
  return a;
}

// Those that flash_attention and incre_flash_attention name alike.
template <class Op> Attention attention_of(const Op& op, index kv_heads, bool paged) {
  Attention a = rules_of(op, op.q.extents[3]);
  Problem& p = a.problem;
  const auto strides = [](const auto& view) { return Strides{view.strides[0], view.strides[1], view.strides[2], 0}; };
  p.q = strides(op.q);
  p.out = strides(op.out);
  p.lse = strides(op.lse);
  p.q_len = op.q.extents[1];
  p.tokens = op.q.extents[0] * op.q.extents[1];
  p.q_heads = static_cast<Int>(op.q.extents[2]);
  p.kv_heads = static_cast<Int>(kv_heads);
  p.k.dim = static_cast<Int>(op.q.extents[3]);
  p.v.dim = static_cast<Int>(op.out.extents[3]);
  p.k.piece = p.k.dim;
  p.v.piece = p.v.dim;
  read_scales(p.k, op.k_scale, op.k_offset, paged);
  read_scales(p.v, op.v_scale, op.v_offset, paged);
  a.k_scale = buffer_of(op.k_scale);
  a.k_offset = buffer_of(op.k_offset);
  a.v_scale = buffer_of(op.v_scale);
  a.v_offset = buffer_of(op.v_offset);
  return a;
}

// Scratch: the sequences of a batch and, where keys are cut into several parts, the results of each part or, one part
// after the other in the gpu shape, of those so far.
std::size_t attention_scratch(const Cl& cl, const Attention& attention, index batch);
struct AttentionScratch {
  BufferArg sequences, partial, state;
  AttentionScratch(const Cl& cl, const Attention& attention, index batch, const SpaceWorkspace<Cl>& workspace);
};

// Enqueues attend or prefill and, behind several parts, merge. The sequences lie in scratch already.
Status attend(Cl& cl, const Attention& attention, const AttentionScratch& scratch);

// Lanes of the kernels that make sequences.
inline constexpr int sequence_lanes = 64;

}  // namespace inlay::cl
