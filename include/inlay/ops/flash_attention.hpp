// Attention of many queries over the keys of their own sequence: prefill, append, chunks of either.
//                                                          Dao et al., 2022; Dao, 2023 (FlashAttention-2)
//
//   out[b,i,h,:] = sum_j p_j v[b,j,h/group,:]      p = softmax_j(score(q[b,i,h,:] . k[b,j,h/group,:]))
//   lse[b,i,h]   = log sum_j exp(score_j)          natural logarithm
//
// The score, the mask, sinks and alignment are those of core/attention.hpp. Sums run in f32; p is rounded
// with bf16_products only. Rows that see no key: out 0, lse -inf or, with sinks, the sink.
//
// Queries                                      Keys and values
//   padded  q [batch, q_len, ..]                 padded  k [batch, max_len, ..], kv_lens optional
//   ragged  q [1, total_q, ..] and q_indptr      ragged  k [1, total_kv, ..] and kv_indptr
//           (rows behind the last sequence are   paged   k [blocks, block_size, ..], block_table and
//           neither read nor written)                    kv_lens: key j lies in block_table[b, j / block_size]
//
// Any of the left with any of the right. A chunk of a prompt is its queries over all keys up to its
// end: the result is bit for bit that of the whole prompt at once (docs/ops/flash_attention.md).
//
// Sparse modes: none; causal; band (window_left, window_right); custom (packed_mask, mask). Given
// together, a key is seen if each of them lets it.
#pragma once

#include <inlay/core/attention_check.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/isa.hpp>
#include <inlay/core/text.hpp>

namespace inlay {

template <class Space = Host> struct FlashAttention {
  ConstView<4, Space> q;                  // [batch, q_len, q_heads, dim]       f32 f16 bf16
  ConstView<4, Space> k;                  // [batch, kv_len, kv_heads, dim]     f32 f16 bf16 i8
  ConstView<4, Space> v;                  // [batch, kv_len, kv_heads, v_dim]   f32 f16 bf16 i8; may lie inside k
  View<4, Space> out;                     // [batch, q_len, q_heads, v_dim]     f32 f16 bf16
  View<3, Space> lse = {};                // [batch, q_len, q_heads]            f32
  ConstView<1, Space> q_indptr = {};      // [batch + 1]          i32 i64
  ConstView<1, Space> kv_indptr = {};     // [batch + 1]          i32 i64
  ConstView<1, Space> kv_lens = {};       // [batch]              i32 i64
  ConstView<2, Space> block_table = {};   // [batch, max_blocks]  i32
  ConstView<1, Space> q_start = {};       // [batch]  i32 i64; position of a sequence's first query among its
                                          //          keys, -2^53..2^53; left out: kv_len - q_len. Zeros: top-left
  ConstView<4, Space> bias = {};          // [batch|1, q_heads|1, q_len|1, kv_len]  f32 f16 bf16; -inf masks
  ConstView<4, Space> mask = {};          // [batch|1, q_heads|1, q_len|1, kv_len]  bool, true = masked
  ConstView<1, Space> packed_mask = {};   // [bytes]  u8; bit i * kv_len + j of a sequence: 1 = query i sees key j
  ConstView<1, Space> mask_indptr = {};   // [batch + 1]  i32 i64; the byte at which a sequence's bits begin
  ConstView<1, Space> alibi_slopes = {};  // [q_heads]  f32; adds slope * (j - position)
  ConstView<1, Space> sinks = {};         // [q_heads]  f32
  ConstView<4, Space> k_scale = {};       // k's shape with any extent 1: (k + k_offset) * k_scale   f32
  ConstView<4, Space> k_offset = {};
  ConstView<4, Space> v_scale = {};
  ConstView<4, Space> v_offset = {};
  float scale = 0;    // 0: 1 / sqrt(dim)
  float softcap = 0;  // 0: none
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;
  bool causal = false;
  index window_left = -1;     // inclusive; negative: no limit
  index window_right = -1;    // the same; causal makes it 0
  bool deterministic = true;  // the CPU always is
  // exact_float, or leave to multiply in bf16 (core/attention.hpp).
  AttentionCompute compute = AttentionCompute::exact_float;

  static constexpr std::string_view name = "flash_attention";
  static constexpr auto fields = FieldList{in("q", &FlashAttention::q),
                                           in("k", &FlashAttention::k),
                                           in("v", &FlashAttention::v),
                                           inlay::out("out", &FlashAttention::out),
                                           optional_out("lse", &FlashAttention::lse),
                                           optional_in("q_indptr", &FlashAttention::q_indptr),
                                           optional_in("kv_indptr", &FlashAttention::kv_indptr),
                                           optional_in("kv_lens", &FlashAttention::kv_lens),
                                           optional_in("block_table", &FlashAttention::block_table),
                                           optional_in("q_start", &FlashAttention::q_start),
                                           optional_in("bias", &FlashAttention::bias),
                                           optional_in("mask", &FlashAttention::mask),
                                           optional_in("packed_mask", &FlashAttention::packed_mask),
                                           optional_in("mask_indptr", &FlashAttention::mask_indptr),
                                           optional_in("alibi_slopes", &FlashAttention::alibi_slopes),
                                           optional_in("sinks", &FlashAttention::sinks),
                                           optional_in("k_scale", &FlashAttention::k_scale),
                                           optional_in("k_offset", &FlashAttention::k_offset),
                                           optional_in("v_scale", &FlashAttention::v_scale),
                                           optional_in("v_offset", &FlashAttention::v_offset),
                                           scalar("scale", &FlashAttention::scale),
                                           scalar("softcap", &FlashAttention::softcap),
                                           scalar("bias_order", &FlashAttention::bias_order),
                                           scalar("causal", &FlashAttention::causal),
                                           scalar("window_left", &FlashAttention::window_left),
                                           scalar("window_right", &FlashAttention::window_right),
                                           scalar("deterministic", &FlashAttention::deterministic),
                                           scalar("compute", &FlashAttention::compute)};
  static constexpr Isa dot_levels[] = {Isa::avx512_bf16};

  // Negative where q_indptr is empty.
  INLAY_INLINE index batch() const { return q_indptr.present() ? q_indptr.extents[0] - 1 : q.extents[0]; }
  // The longest sequence of keys that the shapes allow.
  INLAY_INLINE index max_kv_len() const {
    return block_table.present() ? saturating_multiply(block_table.extents[1], k.extents[1]) : k.extents[1];
  }
};

inline namespace INLAY_UNIT_ISA {

// Lengths of one sequence; tables lie in host memory.
[[gnu::always_inline]] inline index query_count(const FlashAttention<Host>& op, index b) {
  return op.q_indptr.present() ? entry(op.q_indptr, b + 1) - entry(op.q_indptr, b) : op.q.extents[1];
}
[[gnu::always_inline]] inline index key_count(const FlashAttention<Host>& op, index b) {
  if (op.kv_indptr.present()) return entry(op.kv_indptr, b + 1) - entry(op.kv_indptr, b);
  return op.kv_lens.present() ? entry(op.kv_lens, b) : op.k.extents[1];
}

}  // namespace INLAY_UNIT_ISA

namespace detail {

inline namespace INLAY_UNIT_ISA {

// Every table entry that a sequence uses; every mask as long as the sequences need it.
inline void check_contents(Check<FlashAttention<Host>>& check, const FlashAttention<Host>& op) {
  if (!check.good() || writes_nothing(op)) return;
  const index block_size = op.k.extents[1];
  for (index b = 0; b < op.batch(); ++b) {
    const index queries = query_count(op, b), keys = key_count(op, b);
    if (op.block_table.present())
      for (index i = 0; keys > 0 && i < groups_of(keys, block_size); ++i) {
        const index block = op.block_table.as<std::int32_t>()[offset(op.block_table, b, i)];
        check.that(block >= 0 && block < op.k.extents[0], op.block_table, [&] {
          return "has block " + number(block) + " at [" + number(b) + ", " + number(i) + "]; it must be in 0.." +
                 number(op.k.extents[0] - 1);
        });
      }
    if (op.q_start.present())
      check.that(
          entry(op.q_start, b) >= -farthest_position && entry(op.q_start, b) <= farthest_position, op.q_start,
          [&] { return "has " + number(entry(op.q_start, b)) + " at " + number(b) + "; it must be in -2^53..2^53"; });
    const auto covers = [&](const ConstView<4>& mask) {
      check.that(!mask.present() || queries == 0 || keys == 0 ||
                     ((mask.extents[2] == 1 || mask.extents[2] >= queries) && mask.extents[3] >= keys),
                 mask, [&] {
                   return "has shape " + format_shape<4>(mask.extents) + "; it must cover the " + number(queries) +
                          " queries and " + number(keys) + " keys of sequence " + number(b);
                 });
    };
    covers(op.bias);
    covers(op.mask);
    if (op.packed_mask.present()) {
      const index begin = entry(op.mask_indptr, b), end = entry(op.mask_indptr, b + 1);
      const index pairs = saturating_multiply(queries, keys);
      check.that((end - begin) * 8 >= pairs, op.mask_indptr, [&] {
        return "gives sequence " + number(b) + " " + number(end - begin) + " bytes; it must have " +
               number(groups_of(pairs, 8));
      });
    }
  }
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const FlashAttention<Space>& op) {
  Check demands(op);
  if (!demands.good()) return demands;
  const index batch = op.batch(), q_heads = op.q.extents[2], kv_heads = op.k.extents[2];
  check_scores(demands, op, op.k, op.v);
  demands.dtype(op.k, kv_types)
      .extent(op.k, 3, op.q.extents[3])
      .dtype(op.v, kv_types)
      .within(op.compute, AttentionCompute::exact_float, AttentionCompute::bf16_products)
      .shape(op.v, {op.k.extents[0], op.k.extents[1], kv_heads, op.v.extents[3]})
      .dtype(op.out, floats)
      .dtype(op.q_indptr, ids)
      .that(!op.q_indptr.present() || batch >= 0, op.q_indptr, "is empty; it must have batch + 1 entries")
      .that(!op.q_indptr.present() || op.q.extents[0] == 1, op.q, "must have extent 1 before q_indptr's rows")
      .dtype(op.kv_indptr, ids)
      .extent(op.kv_indptr, 0, batch + 1)
      .that(!op.kv_indptr.present() || op.k.extents[0] == 1, op.k, "must have extent 1 before kv_indptr's rows")
      .that(!op.kv_indptr.present() || !op.block_table.present(), op.kv_indptr,
            "is given with block_table; it must be left out")
      .that(!op.kv_indptr.present() || !op.kv_lens.present(), op.kv_lens,
            "is given with kv_indptr; it must be left out")
      .dtype(op.block_table, DType::i32)
      .extent(op.block_table, 0, batch)
      .that(op.max_kv_len() < longest_kv_len, op.block_table, "reaches 2^57 keys or more; it must reach fewer")
      .that(!op.block_table.present() || op.kv_lens.present(), op.kv_lens, "is left out; block_table demands it")
      .that(
          op.kv_indptr.present() || op.block_table.present() || op.k.extents[0] == batch, op.k,
          [&] { return "has " + number(op.k.extents[0]) + " sequences; it must have the " + number(batch) + " of q"; })
      .dtype(op.kv_lens, ids)
      .extent(op.kv_lens, 0, batch)
      .dtype(op.q_start, ids)
      .extent(op.q_start, 0, batch)
      .dtype(op.bias, floats)
      .dtype(op.mask, DType::boolean)
      .dtype(op.packed_mask, DType::u8)
      .together(op.mask_indptr, op.packed_mask)
      .dtype(op.mask_indptr, ids)
      .extent(op.mask_indptr, 0, batch + 1);
  for (const auto* mask : {&op.bias, &op.mask})
    check_broadcast(demands, *mask, {batch, q_heads, mask->extents[2], mask->extents[3]});
  check_antiquant(demands, op.k.dtype, op.k_scale, op.k_offset, op.k.extents);
  check_antiquant(demands, op.v.dtype, op.v_scale, op.v_offset, op.v.extents);
  check_lengths(demands, op.kv_lens, op.max_kv_len());
  check_indptr(demands, op.q_indptr, op.q.extents[1]);
  check_indptr(demands, op.kv_indptr, op.k.extents[1]);
  check_indptr(demands, op.mask_indptr, op.packed_mask.extents[0]);
  if constexpr (std::is_same_v<Space, Host>) detail::check_contents(demands, op);
  return demands;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
