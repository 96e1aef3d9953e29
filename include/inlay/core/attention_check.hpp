// The demands that attention operators have in common. The fields carry the same names in all of
// them: q [batch, q_len, q_heads, dim], k and v [.., kv_heads, dim], out, lse, alibi_slopes, sinks, ...
#pragma once

#include <inlay/core/attention.hpp>
#include <inlay/core/check.hpp>
#include <inlay/core/entries.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

inline constexpr index max_head_dim = 576;  // DeepSeek's compressed K: 512 + 64
INLAY_HIDDEN inline constexpr DTypes kv_types{DType::f32, DType::f16, DType::bf16, DType::i8};

inline namespace INLAY_UNIT_ISA {

// Each extent must be 1 (broadcast) or what is asked for.
template <class Op, class V>
void check_broadcast(Check<Op>& check, const V& view, const std::array<index, V::rank>& full) {
  bool fits = true;
  for (std::size_t d = 0; d < V::rank; ++d) fits = fits && (view.extents[d] == 1 || view.extents[d] == full[d]);
  check.that(!view.present() || fits, view, [&] {
    return "has shape " + format_shape<V::rank>(view.extents) + "; it must be " + format_shape<V::rank>(full) +
           " with any extent replaced by 1";
  });
}

// scale and offset of an int8 K or V: the shape of the tensor with any extent 1. Per token and per
// channel at once would be one scale an element.
template <class Op, class V>
void check_antiquant(Check<Op>& check, DType type, const V& scale, const V& offset, const std::array<index, 4>& full) {
  check.that(scale.present() == (type == DType::i8), scale, "must be given where its tensor is i8, and only then")
      .that(!offset.present() || scale.present(), offset, "is given without a scale; it must be left out")
      .dtype(scale, DType::f32)
      .dtype(offset, DType::f32);
  check_broadcast(check, scale, full);
  check_broadcast(check, offset, full);
  for (const V* view : {&scale, &offset})
    check.that(!view->present() || view->extents[3] == 1 || (view->extents[0] == 1 && view->extents[1] == 1), *view,
               "is per token and per channel; it must be one of the two");
}

// Shapes of q and out, heads, and the scalars and per-head vectors of the score.
template <class Op, class K, class V> void check_scores(Check<Op>& check, const Op& op, const K& k, const V& v) {
  const index batch = op.q.extents[0], q_len = op.q.extents[1], q_heads = op.q.extents[2], dim = op.q.extents[3];
  const index kv_heads = k.extents[K::rank - 2], v_dim = v.extents[V::rank - 1];
  check.dtype(op.q, floats)
      .that(dim >= 1 && dim <= max_head_dim, op.q,
            [&] { return "has head_dim " + number(dim) + "; it must be in 1..576"; })
      .that(v_dim >= 1 && v_dim <= max_head_dim, op.v,
            [&] { return "has head_dim " + number(v_dim) + "; it must be in 1..576"; })
      .that(kv_heads >= 1 && q_heads % (kv_heads < 1 ? 1 : kv_heads) == 0, op.q,
            [&] {
              return "has " + number(q_heads) + " heads; it must have a multiple of the " + number(kv_heads) + " of k";
            })
      .shape(op.out, {batch, q_len, q_heads, v_dim})
      .dtype(op.lse, DType::f32)
      .shape(op.lse, {batch, q_len, q_heads})
      .dtype(op.alibi_slopes, DType::f32)
      .extent(op.alibi_slopes, 0, q_heads)
      .dtype(op.sinks, DType::f32)
      .extent(op.sinks, 0, q_heads)
      .finite(op.scale)
      .not_negative(op.softcap)
      .within(op.bias_order, BiasOrder::scale_bias_softcap, BiasOrder::bias_scale_softcap);
}

// Lengths, one a sequence: 0..limit.
template <class Op, class V> void check_lengths(Check<Op>& check, const V& lengths, index limit) {
  if constexpr (std::is_same_v<V, ConstView<1, Host>>) {
    if (check.good() && lengths.present())
      for (index b = 0; b < lengths.extents[0]; ++b) {
        const index length = entry(lengths, b);
        check.that(length >= 0 && length <= limit, lengths, [&] {
          return "has " + number(length) + " at " + number(b) + "; it must be in 0.." + number(limit);
        });
      }
  }
}

// Where each sequence begins, and behind the last one its end: from 0 on, never falling, within `rows`.
template <class Op, class V> void check_indptr(Check<Op>& check, const V& indptr, index rows) {
  if constexpr (std::is_same_v<V, ConstView<1, Host>>) {
    if (check.good() && indptr.present())
      for (index b = 0, before = 0; b < indptr.extents[0]; ++b) {
        const index now = entry(indptr, b);
        check.that(b == 0 ? now == 0 : now >= before && now <= rows, indptr, [&] {
          return "has " + number(now) + " at " + number(b) + "; it must begin with 0, never fall and end by " +
                 number(rows);
        });
        before = now;
      }
  }
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
