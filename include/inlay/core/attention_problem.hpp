// Attention as the backends see it, whichever of the three contracts it came from. Views are in the space of the
// operator; a backend binds or enqueues them as it likes, and adds what only it needs (tiles, splits).
//
//   q, out      [outer, row, head, dim]          query i of a sequence is row q_row + i of q_outer
//   K, V        [outer, head, group, row, x]     as core/paged_kv.hpp has it: dim = group * x + i. Key j is
//                                                  row `row + j` of `outer`, or of the sequence's own view of a list,
//                                                  or row j % rows of block block_table[b, j / rows]
//   scales      [outer, row, head, dim]          of K or V; extents of 1 are broadcast
//   bias, mask  [batch, head, query, column]     extents of 1 are broadcast; key j is column `column + j`
//
// Lists (lengths, where sequences begin) are the operator's own. Where the host can read them, attention_sequence()
// says what they mean; a kernel that must read them on a device follows it line by line.
#pragma once

#include <span>

#include <inlay/core/attention.hpp>
#include <inlay/core/entries.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/paged_kv.hpp>

namespace inlay {

// ops/ has them; whoever makes a problem of one has included it.
template <class Space> struct FlashAttention;
template <class Space> struct IncreFlashAttention;
template <class Space> struct PagedAttention;

// K or V of a whole call.
template <class Space = Host> struct AttentionKv {
  ConstPagedView<Space> cache = {};                // outer: a batch entry or a block. Of a list, its first view
  std::span<const ConstView<3, Space>> list = {};  // [rows, kv_heads, dim] of each sequence, or nothing
  index dim = 0;
  ConstView<4, Space> scale = {}, offset = {};  // of int8: (x + offset) * scale
  float factor = 1;                             // of all elements, beside their scales

  INLAY_INLINE DType dtype() const { return cache.dtype; }
  // How many rows, a block's or its own, and where they lie for the keys of sequence b.
  INLAY_INLINE index rows(index b) const {
    return list.empty() ? cache.extents[3] : list[static_cast<std::size_t>(b)].extents[0];
  }
  INLAY_INLINE ConstPagedView<Space> of(index b) const {
    return list.empty() ? cache : flat_cache(ragged(list[static_cast<std::size_t>(b)]));
  }
};

// One sequence of the batch.
struct AttentionSequence {
  index queries = 0, keys = 0;
  index position = 0;            // of query 0 among the keys
  index q_outer = 0, q_row = 0;  // of query 0
  index outer = 0, row = 0;      // of key 0, without a block table
  index scale_outer = 0;         // of key 0 in scales, without a block table; their row is K's
  index column = 0;              // of key 0 in bias and mask
  index packed = 0;              // the byte of packed_mask where bits begin: bit i * keys + j says that query i sees j
};

template <class Space = Host> struct AttentionProblem {
  ConstView<4, Space> q;
  View<4, Space> out;
  View<3, Space> lse = {};  // [outer, row, head]
  AttentionKv<Space> k, v;
  ConstView<2, Space> block_table = {};               // [batch, blocks of a sequence]
  ConstView<1, Space> q_indptr = {}, kv_indptr = {};  // [batch + 1], of ragged batches
  ConstView<1, Space> kv_lens = {};                   // [batch], of stride 0 where one length serves all
  ConstView<1, Space> q_start = {};  // [batch]: the position of query 0. Left out: the last sees the last
  ConstView<4, Space> bias = {}, mask = {};
  ConstView<1, Space> packed_mask = {}, mask_indptr = {};
  ConstView<1, Space> alibi_slopes = {}, sinks = {};    // [q_heads]
  ConstView<2, Space> out_scale = {}, out_offset = {};  // [q_heads|1, v_dim|1], of int8 output
  float scale = 1, softcap = 0;                         // softcap 0: none
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;
  index window_left = -1, window_right = -1;  // negative: no limit
  bool left_padded = false;                   // keys end `padding` rows before the end of their view
  index padding = 0;
  index max_kv_len = 0;          // what the shapes allow a sequence
  index partition = 0;           // keys of each part that is merged into the whole; 0: the backend's own choice
  bool chunk_invariant = false;  // a row has the same bits beside any others
  AttentionCompute compute = AttentionCompute::exact_float;

  // Negative where q_indptr is empty.
  INLAY_INLINE index batch() const { return q_indptr.present() ? q_indptr.extents[0] - 1 : q.extents[0]; }
  INLAY_INLINE index q_heads() const { return q.extents[2]; }
  INLAY_INLINE index kv_heads() const { return k.cache.extents[1]; }
  INLAY_INLINE index group() const { return q_heads() / kv_heads(); }
  INLAY_INLINE index block_size() const { return k.cache.extents[3]; }  // with a block table
  INLAY_INLINE bool biased() const { return bias.present() || alibi_slopes.present(); }
  INLAY_INLINE KeyRange visible(const AttentionSequence& s, index query) const {
    return visible_keys(s.position + query, s.keys, window_left, window_right);
  }
};

INLAY_INLINE AttentionSequence attention_sequence(const AttentionProblem<Host>& p, index b) {
  AttentionSequence s;
  if (p.q_indptr.present()) {
    s.q_row = entry(p.q_indptr, b);
    s.queries = entry(p.q_indptr, b + 1) - s.q_row;
  } else {
    s.q_outer = b;
    s.queries = p.q.extents[1];
  }
  const index rows = p.k.rows(b);
  if (p.kv_indptr.present()) {
    s.row = entry(p.kv_indptr, b);
    s.keys = entry(p.kv_indptr, b + 1) - s.row;
  } else {
    s.outer = p.k.list.empty() ? b : 0;
    s.scale_outer = b;
    s.keys = p.kv_lens.present() ? entry(p.kv_lens, b) : rows;
  }
  if (p.left_padded) {
    const KeyRange slots = left_padded_keys(rows, s.keys, p.padding);
    s.keys = slots.end - slots.begin;
    s.row = s.column = slots.begin;
  }
  s.position = p.q_start.present() ? entry(p.q_start, b) : s.keys - s.queries;
  if (p.packed_mask.present()) s.packed = entry(p.mask_indptr, b);
  return s;
}

namespace detail {

// [tokens, heads, dim] as a batch of one query each.
template <template <int, class> class V, class Space> INLAY_INLINE V<4, Space> single_queries(const V<3, Space>& rows) {
  const auto& [n, heads, dim] = rows.extents;
  const auto& [step, head_step, one] = rows.strides;
  return {rows.data, rows.dtype, {n, 1, heads, dim}, {step, 0, head_step, one}};
}

// [blocks, kv_heads, block_size] as scales of [blocks, block_size, kv_heads, 1].
template <class Space> INLAY_INLINE ConstView<4, Space> token_scales(const ConstView<3, Space>& scales) {
  if (!scales.present()) return {};
  const auto& [blocks, kv_heads, block_size] = scales.extents;
  return {scales.data,
          scales.dtype,
          {blocks, block_size, kv_heads, 1},
          {scales.strides[0], scales.strides[2], scales.strides[1], 1}};
}

// [batch|1, query|1, column] as a mask of all heads.
template <class Space> INLAY_INLINE ConstView<4, Space> of_all_heads(const ConstView<3, Space>& mask) {
  if (!mask.present()) return {};
  const auto& [batch, queries, columns] = mask.extents;
  return {mask.data, mask.dtype, {batch, 1, queries, columns}, {mask.strides[0], 0, mask.strides[1], 1}};
}

template <class Space> INLAY_INLINE View<3, Space> single_query_lse(const View<2, Space>& lse) {
  if (!lse.present()) return {};
  return {lse.data, lse.dtype, {lse.extents[0], 1, lse.extents[1]}, {lse.strides[0], 0, lse.strides[1]}};
}

// One length of all sequences as one of each.
template <class Space> INLAY_INLINE ConstView<1, Space> for_each(const ConstView<1, Space>& lengths, index batch) {
  if (lengths.extents[0] != 1) return lengths;
  return {lengths.data, lengths.dtype, {batch}, {0}};
}

}  // namespace detail

template <class Space> INLAY_INLINE AttentionProblem<Space> attention_problem(const FlashAttention<Space>& op) {
  return {.q = op.q,
          .out = op.out,
          .lse = op.lse,
          .k = {flat_cache(op.k), {}, op.q.extents[3], op.k_scale, op.k_offset},
          .v = {flat_cache(op.v), {}, op.out.extents[3], op.v_scale, op.v_offset},
          .block_table = op.block_table,
          .q_indptr = op.q_indptr,
          .kv_indptr = op.kv_indptr,
          .kv_lens = op.kv_lens,
          .q_start = op.q_start,
          .bias = op.bias,
          .mask = op.mask,
          .packed_mask = op.packed_mask,
          .mask_indptr = op.mask_indptr,
          .alibi_slopes = op.alibi_slopes,
          .sinks = op.sinks,
          .scale = static_cast<float>(score_rule(op, op.q.extents[3]).scale),
          .softcap = op.softcap,
          .bias_order = op.bias_order,
          .window_left = op.window_left,
          .window_right = op.causal ? 0 : op.window_right,
          .max_kv_len = op.max_kv_len(),
          .chunk_invariant = true,
          .compute = op.compute};
}

template <class Space> INLAY_INLINE AttentionProblem<Space> attention_problem(const IncreFlashAttention<Space>& op) {
  const ConstView<4, Space> k = op.listed() ? ragged(op.k_list[0]) : op.k,
                            v = op.listed() ? ragged(op.v_list[0]) : op.v;
  return {.q = op.q,
          .out = op.out,
          .lse = op.lse,
          .k = {flat_cache(k), op.k_list, op.q.extents[3], op.k_scale, op.k_offset},
          .v = {flat_cache(v), op.v_list, op.out.extents[3], op.v_scale, op.v_offset},
          .kv_lens = detail::for_each(op.kv_lens, op.q.extents[0]),
          .bias = op.bias,
          .mask = detail::of_all_heads(op.mask),
          .alibi_slopes = op.alibi_slopes,
          .sinks = op.sinks,
          .out_scale = op.out_scale,
          .out_offset = op.out_offset,
          .scale = static_cast<float>(score_rule(op, op.q.extents[3]).scale),
          .softcap = op.softcap,
          .bias_order = op.bias_order,
          .window_left = op.window_left,
          .window_right = op.causal ? 0 : -1,
          .left_padded = op.kv_left_padding,
          .padding = op.kv_padding,
          .max_kv_len = op.max_slots()};
}

template <class Space> INLAY_INLINE AttentionProblem<Space> attention_problem(const PagedAttention<Space>& op) {
  const index reach = op.max_kv_len(), whole = reach < 1 ? 1 : reach;
  return {.q = detail::single_queries(op.q),
          .out = detail::single_queries(op.out),
          .lse = detail::single_query_lse(op.lse),
          .k = {op.k, {}, op.q.extents[2], detail::token_scales(op.k_scale), {}, op.k_tensor_scale},
          .v = {op.v, {}, op.out.extents[2], detail::token_scales(op.v_scale), {}, op.v_tensor_scale},
          .block_table = op.block_table,
          .kv_lens = op.kv_lens,
          .alibi_slopes = op.alibi_slopes,
          .sinks = op.sinks,
          .scale = static_cast<float>(score_rule(op, op.q.extents[2]).scale),
          .softcap = op.softcap,
          .bias_order = op.bias_order,
          .window_left = op.window_left,
          .window_right = 0,
          .max_kv_len = reach,
          .partition = op.partition > 0 && op.partition < whole ? op.partition : whole};  // v2, v1
}

}  // namespace inlay
