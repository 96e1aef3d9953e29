// What the attention operators have in common once their layouts are read: one problem, and for each
// sequence of the batch where its queries and keys lie. Plain data; the kernels know no operator.
#pragma once

#include <inlay/core/attention_check.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::cpu {

// Keys are taken in tiles that begin at multiples of key_tile counted from the first key of the
// sequence, whatever the chunk: with that, a row's arithmetic does not depend on its neighbours.
inline constexpr index key_tile = 64;
inline constexpr index lane_pad = 16;  // scratch rows are padded to the widest register
inline constexpr index max_rows = 96;  // (query, head) pairs that share a tile of keys

INLAY_INLINE index padded(index dim) { return (dim + lane_pad - 1) / lane_pad * lane_pad; }

// K or V of a whole call.
struct KvTensor {
  DType type = DType::f32;
  index outer_stride = 0, row_stride = 0, head_stride = 0;  // elements; outer: a batch entry or a block
  ConstView<4> scale, offset;                               // int8: indexed as the tensor, 1 = broadcast
};

struct AttentionSequence {
  index queries = 0, keys = 0;
  index position = 0;            // of query 0 among the keys
  index q_outer = 0, q_row = 0;  // query i is q[q_outer, q_row + i]
  const void* k = nullptr;       // element [0, 0, 0, 0] of the tensor that holds its keys
  const void* v = nullptr;
  index k_row_stride = 0, k_head_stride = 0, v_row_stride = 0, v_head_stride = 0;
  index outer = 0, row = 0;              // key j is k[outer, row + j], or paged:
  const std::int32_t* blocks = nullptr;  // k[blocks[j / block_size], j % block_size]
  index scale_outer = 0;                 // where outer counts in scale and offset
  index column = 0;                      // of key 0 in bias and mask
  const unsigned char* packed_mask = nullptr;
};

struct AttentionProblem {
  index batch = 0, q_heads = 0, kv_heads = 0, dim = 0, v_dim = 0;
  ConstView<4> q;
  View<4> out;
  View<3> lse;
  KvTensor k, v;
  index block_size = 0;
  ConstView<4> bias, mask;  // extents of 1 are broadcast
  ConstView<1> alibi_slopes, sinks;
  ConstView<2> out_scale, out_offset;
  float scale = 1, softcap = 0;
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;
  index window_left = -1, window_right = -1;
  index split = 0;          // keys after which a partial result is merged into the whole
  bool packs_keys = false;  // many rows: scores from transposed key tiles; few: attention/decode.hpp

  INLAY_INLINE index group() const { return q_heads / kv_heads; }
};

// The fields that both operators name alike.
template <class Op> INLAY_INLINE AttentionProblem attention_problem(const Op& op) {
  AttentionProblem p;
  p.q_heads = op.q.extents[2];
  p.dim = op.q.extents[3];
  p.v_dim = op.out.extents[3];
  p.q = op.q;
  p.out = op.out;
  p.lse = op.lse;
  p.alibi_slopes = op.alibi_slopes;
  p.sinks = op.sinks;
  p.k.scale = op.k_scale;
  p.k.offset = op.k_offset;
  p.v.scale = op.v_scale;
  p.v.offset = op.v_offset;
  p.scale = op.scale != 0 ? op.scale : 1 / __builtin_sqrtf(static_cast<float>(p.dim));
  p.softcap = op.softcap;
  p.bias_order = op.bias_order;
  p.window_left = op.window_left;
  return p;
}

// The first element of row [i0, i1, i2] where extents of 1 are broadcast, and the step to the next.
struct BroadcastRow {
  index first, step;
};
INLAY_INLINE BroadcastRow broadcast_row(const ConstView<4>& view, index i0, index i1, index i2) {
  const index at[3] = {i0, i1, i2};
  index first = 0;
  for (int d = 0; d < 3; ++d) first += view.extents[d] == 1 ? 0 : at[d] * view.strides[d];
  return {first, view.extents[3] == 1 ? 0 : index{1}};
}

}  // namespace inlay::cpu
