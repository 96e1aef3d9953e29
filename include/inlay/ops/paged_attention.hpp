// One query per sequence over a paged KV cache (Kwon et al., 2023; core/paged_kv.hpp draws the layouts).
//
//   out[b, h, :] = sum_j softmax_j(score(q[b, h, :] . K[j, h / group, :])) V[j, h / group, :]
//
// K[j] and V[j] lie in block block_table[b, j / block_size] for j < kv_lens[b]; the query stands at
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
  ConstPagedView<Space> k;                // [blocks, kv_heads, key_dim / x, block_size, x]    f32 f16 bf16 i8
  ConstPagedView<Space> v;                // [blocks, kv_heads, value_dim / x, block_size, x]  k's type
  ConstView<2, Space> block_table;        // [seqs, max_blocks] i32
  ConstView<1, Space> kv_lens;            // [seqs] i32; 0..max_blocks * block_size
  View<3, Space> out;                     // [seqs, q_heads, value_dim]  f32 f16 bf16
  View<2, Space> lse = {};                // [seqs, q_heads] f32, natural log
  ConstView<3, Space> k_scale = {};       // [blocks, kv_heads, block_size] f32; of an i8 cache
  ConstView<3, Space> v_scale = {};       // [blocks, kv_heads, block_size] f32; together with k_scale
  ConstView<1, Space> alibi_slopes = {};  // [q_heads] f32
  ConstView<1, Space> sinks = {};         // [q_heads] f32
  float scale = 0;                        // 0: 1 / sqrt(key_dim)
  float k_tensor_scale = 1, v_tensor_scale = 1;  // of a whole i8 cache; they multiply the scales above
  float softcap = 0;                             // 0: none
  index window_left = -1;                        // key j is visible if j >= position - window_left; negative: all
  index partition = 512;
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;

  static constexpr std::string_view name = "paged_attention";
  static constexpr auto fields = FieldList{in("q", &PagedAttention::q),
                                           in("k", &PagedAttention::k),
                                           in("v", &PagedAttention::v),
                                           in("block_table", &PagedAttention::block_table),
                                           in("kv_lens", &PagedAttention::kv_lens),
                                           inlay::out("out", &PagedAttention::out),
                                           optional_out("lse", &PagedAttention::lse),
                                           optional_in("k_scale", &PagedAttention::k_scale),
                                           optional_in("v_scale", &PagedAttention::v_scale),
                                           optional_in("alibi_slopes", &PagedAttention::alibi_slopes),
                                           optional_in("sinks", &PagedAttention::sinks),
                                           scalar("scale", &PagedAttention::scale),
                                           scalar("k_tensor_scale", &PagedAttention::k_tensor_scale),
                                           scalar("v_tensor_scale", &PagedAttention::v_tensor_scale),
                                           scalar("softcap", &PagedAttention::softcap),
                                           scalar("window_left", &PagedAttention::window_left),
                                           scalar("partition", &PagedAttention::partition),
                                           scalar("bias_order", &PagedAttention::bias_order)};

  // What a row of block_table reaches, as far as kv_lens can say.
  [[gnu::always_inline]] index max_kv_len() const {
    constexpr index most = std::numeric_limits<std::int32_t>::max();
    const index slots = saturating_multiply(block_table.extents[1], k.extents[3]);
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
  const index block_size = block_size_of(op.k), blocks = block_count(op.k);
  const index reach = op.max_kv_len();
  for (index b = 0; b < op.kv_lens.extents[0]; ++b) {
    const index length = op.kv_lens.as<std::int32_t>()[b * op.kv_lens.strides[0]];
    if (length < 0 || length > reach)
      return "kv_lens[" + number(b) + "] is " + number(length) + "; it must be in 0.." + number(reach) +
             ", what a row of block_table reaches";
    const KeyRange keys = visible_keys(op, length);
    if (keys.empty()) continue;
    const std::int32_t* const table = op.block_table.as<std::int32_t>() + b * op.block_table.strides[0];
    for (index i = keys.begin / block_size; i <= (keys.end - 1) / block_size; ++i)
      if (table[i] < 0 || table[i] >= blocks)
        return "block_table[" + number(b) + ", " + number(i) + "] is " + number(table[i]) + "; it must be in 0.." +
               number(blocks - 1) + ", the blocks of k";
  }
  return {};
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const PagedAttention<Space>& op) {
  const auto& keys = op.k;
  const auto& values = op.v;
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
                         " heads of k";
                })
          .extent(values, 0, block_count(keys))
          .extent(values, 1, kv_heads)
          .extent(values, 3, block_size_of(keys))
          .dtype(op.block_table, DType::i32)
          .extent(op.block_table, 0, seqs)
          .dtype(op.kv_lens, DType::i32)
          .extent(op.kv_lens, 0, seqs)
          .dtype(op.out, floats)
          .shape(op.out, {seqs, q_heads, head_dim_of(values)})
          .dtype(op.lse, DType::f32)
          .shape(op.lse, {seqs, q_heads})
          .that(quantized || !op.k_scale.present(), op.k_scale, "is given; it must be left out without an i8 cache")
          .together(op.k_scale, op.v_scale)
          .dtype(op.k_scale, DType::f32)
          .shape(op.k_scale, {block_count(keys), kv_heads, block_size_of(keys)})
          .dtype(op.v_scale, DType::f32)
          .shape(op.v_scale, {block_count(keys), kv_heads, block_size_of(keys)})
          .dtype(op.alibi_slopes, DType::f32)
          .extent(op.alibi_slopes, 0, q_heads)
          .dtype(op.sinks, DType::f32)
          .extent(op.sinks, 0, q_heads)
          .finite(op.scale)
          .positive(op.k_tensor_scale)
          .positive(op.v_tensor_scale)
          .that(quantized || op.k_tensor_scale == 1, op.k_tensor_scale, "is given; it must be 1 without an i8 cache")
          .that(quantized || op.v_tensor_scale == 1, op.v_tensor_scale, "is given; it must be 1 without an i8 cache")
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
