// What the attention operators have in common once their layouts are read: one problem, and for each
// sequence of the batch where its queries and keys lie. Plain data; the kernels know no operator.
#pragma once

#include <inlay/core/attention_check.hpp>
#include <inlay/core/paged_kv.hpp>

#include "cpu_kernels/attention/sizes.hpp"
#include "cpu_kernels/simd/inline.hpp"
#include "cpu_kernels/simd/unroll.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

INLAY_INLINE index padded(index dim) { return (dim + lane_pad - 1) / lane_pad * lane_pad; }

// A matrix in scratch: row r begins at `at + r * stride`.
template <class T> struct Strided {
  T* at;
  index stride;

  INLAY_INLINE Strided from(index r, index column = 0) const { return {at + r * stride + column, stride}; }
};

// K or V of a whole call.
struct KvTensor {
  DType type = DType::f32;
  index dim = 0;
  index outer_stride = 0;                // elements; outer: a batch entry or a block
  ConstView<4> scale = {}, offset = {};  // int8: indexed as the tensor, 1 = broadcast
};

// K or V of one sequence.
struct KvRows {
  const void* data = nullptr;  // element [0, 0, 0, 0] of the tensor
  index row_stride = 0, head_stride = 0;
};

enum class Which { keys, values };

struct AttentionSequence {
  index queries = 0, keys = 0;
  index position = 0;            // of query 0 among the keys
  index q_outer = 0, q_row = 0;  // query i is q[q_outer, q_row + i]
  KvRows k, v;
  index outer = 0, row = 0;              // key j is k[outer, row + j], or paged:
  const std::int32_t* blocks = nullptr;  // k[blocks[j / block_size], j % block_size]
  index scale_outer = 0;                 // where outer counts in scale and offset
  index column = 0;                      // of key 0 in bias and mask
  const unsigned char* packed_mask = nullptr;

  INLAY_INLINE const KvRows& rows(Which which) const { return which == Which::keys ? k : v; }
};

struct AttentionProblem {
  index batch = 0, q_heads = 0, kv_heads = 0;
  ConstView<4> q;
  View<4> out;
  View<3> lse;
  KvTensor k, v;
  index block_size = 0;
  ConstPagedView<> key_pages, value_pages;  // vLLM's layouts only (attention/pages.hpp)
  float key_scale = 1, value_scale = 1;     // of a whole int8 cache: they meet q and the result
  ConstView<4> bias, mask;                  // extents of 1 are broadcast
  ConstView<1> alibi_slopes, sinks;
  ConstView<2> out_scale, out_offset;
  float scale = 1, softcap = 0;
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;
  index window_left = -1, window_right = -1;
  index split = 0;        // keys after which a partial result is merged into the whole
  bool in_order = false;  // scores are summed dim after dim (attention/columns.hpp): flash_attention's
  bool fours = false;     // keys are taken four side by side (attention/four_rows.hpp)

  INLAY_INLINE index group() const { return q_heads / kv_heads; }
  INLAY_INLINE const KvTensor& cached(Which which) const { return which == Which::keys ? k : v; }
  INLAY_INLINE bool biased() const { return bias.present() || alibi_slopes.present(); }
};

// The fields that flash_attention and incre_flash_attention name alike.
template <class Op> INLAY_INLINE AttentionProblem attention_problem(const Op& op) {
  AttentionProblem p;
  p.q_heads = op.q.extents[2];
  p.k.dim = op.q.extents[3];
  p.v.dim = op.out.extents[3];
  p.q = op.q;
  p.out = op.out;
  p.lse = op.lse;
  p.alibi_slopes = op.alibi_slopes;
  p.sinks = op.sinks;
  p.k.scale = op.k_scale;
  p.k.offset = op.k_offset;
  p.v.scale = op.v_scale;
  p.v.offset = op.v_offset;
  p.scale = static_cast<float>(score_rule(op, p.k.dim).scale);
  p.softcap = op.softcap;
  p.bias_order = op.bias_order;
  p.window_left = op.window_left;
  return p;
}

// The first element of a kv head, in bytes.
INLAY_INLINE const std::byte* head_of(const AttentionProblem& p, const AttentionSequence& sequence, Which which,
                                      index kv_head) {
  const KvRows& rows = sequence.rows(which);
  return static_cast<const std::byte*>(rows.data) + kv_head * rows.head_stride * bits(p.cached(which).type) / 8;
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

// Keys of a sequence whose rows lie side by side: rows row .. row + count of `outer` are keys at .. at + count,
// counted from the first one asked for.
struct KeyRun {
  index outer, row, at, count;
  index scale_outer;
};

// Calls each(KeyRun) for the keys begin .. end.
template <class Each>
INLAY_INLINE void each_run(const AttentionProblem& p, const AttentionSequence& sequence, index begin, index end,
                           Each&& each) {
  if (sequence.blocks == nullptr) {
    if (begin < end) each(KeyRun{sequence.outer, sequence.row + begin, 0, end - begin, sequence.scale_outer});
    return;
  }
  index entry = begin / p.block_size, row = begin % p.block_size;
  for (index at = begin; at < end; ++entry, row = 0) {
    const index block = sequence.blocks[entry], left = end - at;
    const index count = min(p.block_size - row, left);
    each(KeyRun{block, row, at - begin, count, block});
    at += count;
  }
}

}  // namespace inlay::cpu
