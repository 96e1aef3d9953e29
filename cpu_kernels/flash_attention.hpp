// flash_attention: the work is in attention/kernel.hpp. Scores are summed dim after dim, for few queries as for many
// (attention/columns.hpp): a chunk gives the bits of the whole.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/flash_attention.hpp>

#include "cpu_kernels/attention/kernel.hpp"
#include "cpu_kernels/support/without_dots.hpp"

namespace inlay::cpu {

INLAY_INLINE AttentionCall attention_call(const FlashAttention<Host>& op) {
  return {attention_problem(op), prompt_split};
}

INLAY_INLINE bool takes_bf16(const FlashAttention<Host>& op) {
  return op.compute == AttentionCompute::bf16_products && op.k.dtype != DType::i8 && op.v.dtype != DType::i8;
}

template <class Level>
Status flash_attention(const Parallel& parallel, const FlashAttention<Host>& op, Workspace workspace) {
  if constexpr (simd::has_dot_bf16<Level>)
    if (takes_bf16(op)) {
      attention<Level, Bf16RowSource>(attention_call(op), parallel, workspace);
      return {};
    }
  if constexpr (!std::is_same_v<Level, WithoutDots<Level>>) {
    return compute<WithoutDots<Level>>(parallel, op, workspace);
  } else {
    attention<Level, OrderedRowSource>(attention_call(op), parallel, workspace);
    return {};
  }
}

template <class Level> std::size_t flash_attention_scratch(const Parallel& parallel, const FlashAttention<Host>& op) {
  const AttentionCall call = attention_call(op);
  return attention_scratch_bytes(call, parallel, [&](index b) { return attention_sequence(call, b); });
}

}  // namespace inlay::cpu
