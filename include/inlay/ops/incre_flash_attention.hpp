// Attention of one query, or a few, over a long cache: decode.       IncreFlashAttention of Ascend C
//
//   out[b,i,h,:] = sum_j p_j v[b,j,h/group,:]      p = softmax_j(score(q[b,i,h,:] . k[b,j,h/group,:]))
//   lse[b,i,h]   = log sum_j exp(score_j)          natural logarithm
//
// In four stages over a split of the keys: scores, online softmax, the sum over V, and one division at
// the very end. The splits have a fixed length and are merged in order: the same bits for any number
// of threads. The score, the mask, sinks and alignment are those of core/attention.hpp; rows that see
// no key give 0 and lse -inf, or their sink.
//
// Layouts are strides: BSND [batch, len, heads, dim]; BNSD the same with heads before len; BSH is BSND.
// Keys of sequence b are the slots start .. start + length of its K:
//
//   start = 0                                     length = kv_lens[b], or all slots
//   start = slots - max(kv_padding, 0) - length   with kv_left_padding; start < 0: no key is seen
//
// int8 output saturates, infinities too. NaN, of which codes have none, counts as 0 and gives out_offset, as in
// quantize; where a score made it, lse is NaN.
//
// The last dimensions of bias and mask count slots, as Ascend's do.
#pragma once

#include <span>

#include <inlay/core/attention_check.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/text.hpp>

namespace inlay {

template <class Space = Host> struct IncreFlashAttention {
  ConstView<4, Space> q;       // [batch, q_len, q_heads, dim]        f32 f16 bf16
  ConstView<4, Space> k = {};  // [batch, slots, kv_heads, dim]       f32 f16 bf16 i8
  ConstView<4, Space> v = {};  // [batch, slots, kv_heads, v_dim]     f32 f16 bf16 i8; may lie inside k
  std::span<const ConstView<3, Space>> k_list = {};  // instead of k and v: one a sequence,
  std::span<const ConstView<3, Space>> v_list = {};  // [slots_b, kv_heads, dim] each, of one dtype
  View<4, Space> out;                                // [batch, q_len, q_heads, v_dim]  f32 f16 bf16 i8
  View<3, Space> lse = {};                           // [batch, q_len, q_heads]         f32
  ConstView<1, Space> kv_lens = {};                  // [batch|1]  i32 i64
  ConstView<4, Space> bias = {};                     // [batch|1, q_heads|1, q_len|1, slots]  f32 f16 bf16
  ConstView<3, Space> mask = {};                     // [batch|1, q_len|1, slots]  bool, true = masked
  ConstView<1, Space> alibi_slopes = {};             // [q_heads]  f32; adds slope * (j - position)
  ConstView<1, Space> sinks = {};                    // [q_heads]  f32
  ConstView<4, Space> k_scale = {};                  // int8 K and V: (k + k_offset) * k_scale   f32, k's shape
  ConstView<4, Space> k_offset = {};                 // with any extent 1 (a list: its longest slots):
  ConstView<4, Space> v_scale = {};                  // [1,1,1,1] tensor, [1,1,kv_heads,dim] channel,
  ConstView<4, Space> v_offset = {};                 // [batch,slots,1|kv_heads,1] token
  ConstView<2, Space> out_scale = {};                // [q_heads|1, v_dim|1]  f32; i8 out:
  ConstView<2, Space> out_offset = {};               // round(out * out_scale + out_offset), saturated
  float scale = 0;                                   // 0: 1 / sqrt(dim)
  float softcap = 0;                                 // 0: none
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;
  bool causal = false;     // with q_len > 1: query i sees keys up to i + length - q_len
  index window_left = -1;  // inclusive; negative: no limit
  bool kv_left_padding = false;
  index kv_padding = 0;       // empty slots behind the last key, with kv_left_padding
  bool deterministic = true;  // the CPU always is

  static constexpr std::string_view name = "incre_flash_attention";
  static constexpr auto fields = FieldList{in("q", &IncreFlashAttention::q),
                                           optional_in("k", &IncreFlashAttention::k),
                                           optional_in("v", &IncreFlashAttention::v),
                                           in_list("k_list", &IncreFlashAttention::k_list),
                                           in_list("v_list", &IncreFlashAttention::v_list),
                                           inlay::out("out", &IncreFlashAttention::out),
                                           optional_out("lse", &IncreFlashAttention::lse),
                                           optional_in("kv_lens", &IncreFlashAttention::kv_lens),
                                           optional_in("bias", &IncreFlashAttention::bias),
                                           optional_in("mask", &IncreFlashAttention::mask),
                                           optional_in("alibi_slopes", &IncreFlashAttention::alibi_slopes),
                                           optional_in("sinks", &IncreFlashAttention::sinks),
                                           optional_in("k_scale", &IncreFlashAttention::k_scale),
                                           optional_in("k_offset", &IncreFlashAttention::k_offset),
                                           optional_in("v_scale", &IncreFlashAttention::v_scale),
                                           optional_in("v_offset", &IncreFlashAttention::v_offset),
                                           optional_in("out_scale", &IncreFlashAttention::out_scale),
                                           optional_in("out_offset", &IncreFlashAttention::out_offset),
                                           scalar("scale", &IncreFlashAttention::scale),
                                           scalar("softcap", &IncreFlashAttention::softcap),
                                           scalar("bias_order", &IncreFlashAttention::bias_order),
                                           scalar("causal", &IncreFlashAttention::causal),
                                           scalar("window_left", &IncreFlashAttention::window_left),
                                           scalar("kv_left_padding", &IncreFlashAttention::kv_left_padding),
                                           scalar("kv_padding", &IncreFlashAttention::kv_padding),
                                           scalar("deterministic", &IncreFlashAttention::deterministic)};

  INLAY_INLINE bool listed() const { return !k_list.empty(); }
  // K and V of sequence b: [slots, kv_heads, dim].
  [[gnu::always_inline]] ConstView<3, Space> keys(index b) const {
    return listed() ? k_list[static_cast<std::size_t>(b)] : of(k, b);
  }
  [[gnu::always_inline]] ConstView<3, Space> values(index b) const {
    return listed() ? v_list[static_cast<std::size_t>(b)] : of(v, b);
  }
  INLAY_INLINE index max_slots() const {
    index slots = k.extents[1];
    for (const auto& part : k_list) slots = part.extents[0] > slots ? part.extents[0] : slots;
    return slots;
  }

 private:
  [[gnu::always_inline]] static ConstView<3, Space> of(const ConstView<4, Space>& view, index b) {
    const ConstView<4, Space> one = view.slice(0, b, 1);
    return {one.data,
            one.dtype,
            {one.extents[1], one.extents[2], one.extents[3]},
            {one.strides[1], one.strides[2], one.strides[3]}};
  }
};

inline namespace INLAY_UNIT_ISA {

// The slots of sequence b that hold its keys; empty where left padding leaves no room for them.
[[gnu::always_inline]] inline KeyRange key_slots(const IncreFlashAttention<Host>& op, index b) {
  const index slots = op.listed() ? op.k_list[static_cast<std::size_t>(b)].extents[0] : op.k.extents[1];
  const auto& lengths = op.kv_lens;
  const index length = lengths.present() ? entry(lengths, lengths.extents[0] == 1 ? 0 : b) : slots;
  return op.kv_left_padding ? left_padded_keys(slots, length, op.kv_padding) : KeyRange{0, length};
}

}  // namespace INLAY_UNIT_ISA

namespace detail {

inline namespace INLAY_UNIT_ISA {

template <class Space> void check_list(Check<IncreFlashAttention<Space>>& check, const IncreFlashAttention<Space>& op) {
  const index batch = op.q.extents[0];
  check.that(op.k_list.size() == op.v_list.size(), op.v_list, "must be as long as k_list")
      .that(op.listed() != op.k.present(), op.k, "must be given, or k_list, and not both")
      .that(op.listed() != op.v.present(), op.v, "must be given, or v_list, and not both")
      .that(!op.listed() || static_cast<index>(op.k_list.size()) == batch, op.k_list, [&] {
        return "has " + number(op.k_list.size()) + " entries; it must have one for each of the " + number(batch) +
               " sequences";
      });
  for (std::size_t b = 0; check.good() && b < op.k_list.size(); ++b) {
    const ConstView<3, Space>&k = op.k_list[b], &v = op.v_list[b], &k0 = op.k_list[0], &v0 = op.v_list[0];
    const auto entry_fits = [&](const auto& list, const ConstView<3, Space>& part, const ConstView<3, Space>& first,
                                index dim) {
      check.that(part.dtype == first.dtype && part.extents == std::array{k.extents[0], k0.extents[1], dim}, list, [&] {
        return "has " + Text(name(part.dtype)) + " " + format_shape<3>(part.extents) + " at " + number(b) +
               "; it must be " + Text(name(first.dtype)) + " " + format_shape<3>({k.extents[0], k0.extents[1], dim});
      });
    };
    entry_fits(op.k_list, k, k0, op.q.extents[3]);
    entry_fits(op.v_list, v, v0, v0.extents[2]);
  }
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const IncreFlashAttention<Space>& op) {
  const index batch = op.q.extents[0], q_len = op.q.extents[1], q_heads = op.q.extents[2], slots = op.max_slots();
  Check demands(op);
  detail::check_list(demands, op);
  if (!demands.good()) return demands;
  // Shapes as if the list were one tensor as long as its longest part.
  const auto shape_of = [&](const ConstView<4, Space>& whole, std::span<const ConstView<3, Space>> list) {
    ConstView<4, Space> view = whole;
    if (op.listed()) view = {{}, list[0].dtype, {batch, slots, list[0].extents[1], list[0].extents[2]}};
    return view;
  };
  const ConstView<4, Space> k = shape_of(op.k, op.k_list), v = shape_of(op.v, op.v_list);
  const bool quantized = op.out.dtype == DType::i8;
  check_scores(demands, op, k, v);
  demands.dtype(op.q, floats)
      .that(kv_types.contains(k.dtype) && kv_types.contains(v.dtype), op.k, "and v must be one of f32 f16 bf16 i8")
      .that(k.extents[0] == batch && k.extents[3] == op.q.extents[3], op.k,
            [&] {
              return "has shape " + format_shape<4>(k.extents) + "; it must have the batch and the head_dim of q " +
                     format_shape<4>(op.q.extents);
            })
      .shape(op.v, {k.extents[0], k.extents[1], k.extents[2], v.extents[3]})
      .dtype(op.out, {DType::f32, DType::f16, DType::bf16, DType::i8})
      .dtype(op.kv_lens, ids)
      .dtype(op.bias, floats)
      .dtype(op.mask, DType::boolean)
      .that(op.out_scale.present() == quantized, op.out_scale, "must be given with i8 output, and only then")
      .that(!op.out_offset.present() || quantized, op.out_offset, "is given without i8 output; it must be left out")
      .dtype(op.out_scale, DType::f32)
      .dtype(op.out_offset, DType::f32);
  check_broadcast(demands, op.kv_lens, {batch});
  check_broadcast(demands, op.bias, {batch, q_heads, q_len, op.bias.extents[3]});
  check_broadcast(demands, op.mask, {batch, q_len, op.mask.extents[2]});
  check_broadcast(demands, op.out_scale, {q_heads, v.extents[3]});
  check_broadcast(demands, op.out_offset, {q_heads, v.extents[3]});
  demands
      .that(!op.bias.present() || op.bias.extents[3] >= slots, op.bias,
            [&] { return "has " + number(op.bias.extents[3]) + " columns; it must have " + number(slots); })
      .that(!op.mask.present() || op.mask.extents[2] >= slots, op.mask,
            [&] { return "has " + number(op.mask.extents[2]) + " columns; it must have " + number(slots); });
  check_antiquant(demands, k.dtype, op.k_scale, op.k_offset, k.extents);
  check_antiquant(demands, v.dtype, op.v_scale, op.v_offset, v.extents);
  if (op.kv_lens.present() && op.kv_lens.extents[0] == 1)
    for (const auto& part : op.k_list) check_lengths(demands, op.kv_lens, part.extents[0]);
  check_lengths(demands, op.kv_lens, slots);
  if constexpr (std::is_same_v<Space, Host>)
    for (index b = 0; demands.good() && !op.out.empty() && b < batch; ++b) {
      const index own = op.listed() ? op.k_list[static_cast<std::size_t>(b)].extents[0] : slots;
      const KeyRange keys = key_slots(op, b);
      demands.that(keys.end <= own, op.kv_lens, [&] {
        return "has " + number(keys.end) + " for sequence " + number(b) + "; it must be in 0.." + number(own);
      });
    }
  return demands;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
