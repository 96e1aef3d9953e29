// Attention over parts of the keys, put together: split KV, a shared prefix, chunks on several devices.
//                                             Dao et al., 2022; Ye et al., FlashInfer, 2025 (merge_states)
//
//   m[t,h]     = max_s partial_lse[s,t,h]
//   lse[t,h]   = m + log sum_s exp(partial_lse[s,t,h] - m)                       natural logarithm
//   out[t,h,:] = sum_s exp(partial_lse[s,t,h] - lse[t,h]) * partial_out[s,t,h,:]
//
// A part that saw no key has lse -inf and is left out: what its partial_out holds, NaN included, never
// reaches out. Where no part saw a key, out is 0 and lse -inf. A part whose lse is NaN or +inf makes its
// row NaN: FlashAttention-2 writes +inf both for a row without keys and for one of NaN, and only who called it can tell
// (-inf is what says "no key"). lse_from_base2 of core/online_softmax.hpp takes FlashInfer's in.
//
// Accumulated in f32 in the order of s, rounded once: results do not depend on the threads.
//
// Each part may be written by an attention operator straight into its place, since outputs are strided:
// FlashAttention{.out = the part s of partial_out, .lse = the part s of partial_lse}.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct MergeStates {
  ConstView<4, Space> partial_out;  // [states, tokens, heads, head_dim]  f32 f16 bf16; strides free
  ConstView<3, Space> partial_lse;  // [states, tokens, heads]            f32
  View<3, Space> out;               // [tokens, heads, head_dim]          f32 f16 bf16
  View<2, Space> lse = {};          // [tokens, heads]                    f32

  static constexpr std::string_view name = "merge_states";
  static constexpr auto fields =
      FieldList{in("partial_out", &MergeStates::partial_out), in("partial_lse", &MergeStates::partial_lse),
                inlay::out("out", &MergeStates::out), optional_out("lse", &MergeStates::lse)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const MergeStates<Space>& op) {
  const auto& [states, tokens, heads, head_dim] = op.partial_out.extents;
  return Check(op)
      .dtype(op.partial_out, floats)
      .that(states >= 1, op.partial_out, "has no states; it must have at least 1")
      .dtype(op.partial_lse, DType::f32)
      .shape(op.partial_lse, {states, tokens, heads})
      .dtype(op.out, floats)
      .shape(op.out, {tokens, heads, head_dim})
      .dtype(op.lse, DType::f32)
      .shape(op.lse, {tokens, heads});
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
