// One query per sequence over a paged KV cache (Kwon et al., 2023; core/paged_kv.hpp draws the layouts).
//
//   out[b, h, :] = sum_j softmax_j(score(q[b, h, :] . K[j, h / group, :])) V[j, h / group, :]
//
// K[j] and V[j] lie in block block_tables[b, j / block_size] for j < context_lens[b]; the query stands at
// the last of them. score() is core/attention.hpp's: scale, ALiBi, softcap, mask. A sequence of length
// 0 gives out 0 and lse -inf or, with sinks, the sink. Only what a query sees is read: table entries past
// the context or wholly before the window, and slots past the context, may hold anything. Visible entries
// are checked before anything is written. Softmax and sums run in f32; out is rounded once.
//
//   partition > 0   (v2) the context is cut at multiples of `partition`, each part gives (o, m, l), and
//                   the parts are merged in order: the result depends on `partition` only, never on
//                   the batch or on the number of threads
//   partition = 0   (v1) the context is one part, and so it is if `partition` is longer
#pragma once

#include <limits>

#include <inlay/core/attention.hpp>
#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/paged_kv.hpp>

namespace inlay {

template <class Space = Host> struct PagedAttention {
  ConstView<3, Space> q;                  // [seqs, q_heads, key_dim]  f32 f16 bf16; sequence and head strides free
  ConstPagedView<Space> key_cache;        // [blocks, kv_heads, key_dim / x, block_size, x]    f32 f16 bf16 i8
  ConstPagedView<Space> value_cache;      // [blocks, kv_heads, value_dim / x, block_size, x]  key_cache's type
  ConstView<2, Space> block_tables;       // [seqs, max_blocks] i32
  ConstView<1, Space> context_lens;       // [seqs] i32; 0..max_blocks * block_size
  View<3, Space> out;                     // [seqs, q_heads, value_dim]  f32 f16 bf16
  View<2, Space> lse = {};                // [seqs, q_heads] f32, natural log
  ConstView<3, Space> key_scales = {};    // [blocks, kv_heads, block_size] f32; of an i8 cache
  ConstView<3, Space> value_scales = {};  // [blocks, kv_heads, block_size] f32; together with key_scales
  ConstView<1, Space> alibi_slopes = {};  // [q_heads] f32
  ConstView<1, Space> sinks = {};         // [q_heads] f32
  float scale = 0;                        // 0: 1 / sqrt(key_dim)
  float key_scale = 1, value_scale = 1;   // of a whole i8 cache; they multiply the scales above
  float softcap = 0;                      // 0: none
  index window_left = -1;                 // key j is visible if j >= position - window_left; negative: all
  index partition = 512;
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;

  static constexpr std::string_view name = "paged_attention";
  static constexpr auto fields = std::tuple{in("q", &PagedAttention::q),
                                            in("key_cache", &PagedAttention::key_cache),
                                            in("value_cache", &PagedAttention::value_cache),
                                            in("block_tables", &PagedAttention::block_tables),
                                            in("context_lens", &PagedAttention::context_lens),
                                            inlay::out("out", &PagedAttention::out),
                                            optional_out("lse", &PagedAttention::lse),
                                            optional_in("key_scales", &PagedAttention::key_scales),
                                            optional_in("value_scales", &PagedAttention::value_scales),
                                            optional_in("alibi_slopes", &PagedAttention::alibi_slopes),
                                            optional_in("sinks", &PagedAttention::sinks),
                                            scalar("scale", &PagedAttention::scale),
                                            scalar("key_scale", &PagedAttention::key_scale),
                                            scalar("value_scale", &PagedAttention::value_scale),
                                            scalar("softcap", &PagedAttention::softcap),
                                            scalar("window_left", &PagedAttention::window_left),
                                            scalar("partition", &PagedAttention::partition),
                                            scalar("bias_order", &PagedAttention::bias_order)};

  // What a row of block_tables reaches, as far as context_lens can say.
  [[gnu::always_inline]] index max_context_len() const {
    constexpr index most = std::numeric_limits<std::int32_t>::max();
    const index slots = saturating_multiply(block_tables.extents[1], key_cache.extents[3]);
    return slots < most ? slots : most;
  }
};

inline namespace INLAY_UNIT_ISA {

// The keys that the query of a sequence of `length` tokens sees.
template <class Space> constexpr KeyRange visible_keys(const PagedAttention<Space>& op, index length) {
  return visible_keys(length - 1, length, op.window_left, 0);
}

}  // namespace INLAY_UNIT_ISA

namespace detail {

inline namespace INLAY_UNIT_ISA {

// "" or what is wrong with the lengths and tables, with the name of the field in front.
inline Text wrong_table(const PagedAttention<Host>& op) {
  const index block_size = block_size_of(op.key_cache), blocks = block_count(op.key_cache);
  const index reach = op.max_context_len();
  for (index b = 0; b < op.context_lens.extents[0]; ++b) {
    const index length = op.context_lens.as<std::int32_t>()[b * op.context_lens.strides[0]];
    if (length < 0 || length > reach)
      return "context_lens[" + number(b) + "] is " + number(length) + "; it must be in 0.." + number(reach) +
             ", what a row of block_tables reaches";
    const KeyRange keys = visible_keys(op, length);
    if (keys.empty()) continue;
    const std::int32_t* const table = op.block_tables.as<std::int32_t>() + b * op.block_tables.strides[0];
    for (index i = keys.begin / block_size; i <= (keys.end - 1) / block_size; ++i)
      if (table[i] < 0 || table[i] >= blocks)
        return "block_tables[" + number(b) + ", " + number(i) + "] is " + number(table[i]) + "; it must be in 0.." +
               number(blocks - 1) + ", the blocks of key_cache";
  }
  return {};
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const PagedAttention<Space>& op) {
  const auto& keys = op.key_cache;
  const auto& values = op.value_cache;
  const index seqs = op.q.extents[0], q_heads = op.q.extents[1], kv_heads = kv_head_count(keys);
  const bool quantized = keys.dtype == DType::i8;
  Status status =
      Check(op)
          .dtype(op.q, floats)
          .dtype(keys, DTypes{DType::f32, DType::f16, DType::bf16, DType::i8})
          .same_dtype(values, keys)
          .that(head_dim_of(keys) == op.q.extents[2], keys,
                [&] {
                  return "has " + number(keys.extents[2]) + " groups of " + number(keys.extents[4]) +
                         "; they must make up " + number(op.q.extents[2]) + ", the dim of q";
                })
          .that(op.q.extents[2] >= 1, op.q, "has a dim of 0; it must be at least 1")
          .that(block_size_of(keys) >= 1, keys, "has blocks without slots; it must have at least 1")
          .that(kv_heads >= 1 && q_heads % kv_heads == 0, op.q,
                [&] {
                  return "has " + number(q_heads) + " heads; they must be a multiple of the " + number(kv_heads) +
                         " heads of key_cache";
                })
          .extent(values, 0, block_count(keys))
          .extent(values, 1, kv_heads)
          .extent(values, 3, block_size_of(keys))
          .dtype(op.block_tables, DType::i32)
          .extent(op.block_tables, 0, seqs)
          .dtype(op.context_lens, DType::i32)
          .extent(op.context_lens, 0, seqs)
          .dtype(op.out, floats)
          .shape(op.out, {seqs, q_heads, head_dim_of(values)})
          .dtype(op.lse, DType::f32)
          .shape(op.lse, {seqs, q_heads})
          .that(quantized || !op.key_scales.present(), op.key_scales,
                "is given; it must be left out without an i8 cache")
          .together(op.key_scales, op.value_scales)
          .dtype(op.key_scales, DType::f32)
          .shape(op.key_scales, {block_count(keys), kv_heads, block_size_of(keys)})
          .dtype(op.value_scales, DType::f32)
          .shape(op.value_scales, {block_count(keys), kv_heads, block_size_of(keys)})
          .dtype(op.alibi_slopes, DType::f32)
          .extent(op.alibi_slopes, 0, q_heads)
          .dtype(op.sinks, DType::f32)
          .extent(op.sinks, 0, q_heads)
          .finite(op.scale)
          .positive(op.key_scale)
          .positive(op.value_scale)
          .that(quantized || op.key_scale == 1, op.key_scale, "is given; it must be 1 without an i8 cache")
          .that(quantized || op.value_scale == 1, op.value_scale, "is given; it must be 1 without an i8 cache")
          .not_negative(op.softcap)
          .within(op.bias_order, BiasOrder::scale_bias_softcap, BiasOrder::bias_scale_softcap)
          .at_least(op.partition, 0);
  if constexpr (std::is_same_v<Space, Host>)
    if (status.ok())
      if (Text wrong = detail::wrong_table(op); !wrong.empty()) return invalid(std::move(wrong));
  return status;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
