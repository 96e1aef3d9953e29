// flash_attention: the work is in attention/kernel.hpp. Scores are summed dim after dim, for few queries as for many
// (attention/columns.hpp): a chunk gives the bits of the whole.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/flash_attention.hpp>

#include "cpu_kernels/attention/kernel.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/without_dots.hpp"

namespace inlay::cpu {

template <class Level>
Status flash_attention(const Parallel& parallel, const FlashAttention<Host>& op, Workspace workspace) {
  const AttentionCall call = attention_call<Level>(op, prompt_split);
  if constexpr (reaches<Level>(QkSums::pairs, QkRoute::pairs))
    if (qk_sums(call) == QkSums::pairs) {
      attention<Level, Bf16RowSource>(call, parallel, workspace);
      return {};
    }
  if constexpr (!std::is_same_v<Level, WithoutDots<Level>>) {
    return compute<WithoutDots<Level>>(parallel, op, workspace);
  } else {
    attention<Level, OrderedRowSource>(call, parallel, workspace);
    return {};
  }
}

template <class Level> std::size_t flash_attention_scratch(const Parallel& parallel, const FlashAttention<Host>& op) {
  const AttentionCall call = attention_call<Level>(op, prompt_split);
  return attention_scratch_bytes(call, parallel, [&](index b) { return attention_sequence(call, b); });
}

template <> struct Kernels<FlashAttention<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const FlashAttention<Host>& op, Workspace workspace) {
    return flash_attention<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel& parallel, const FlashAttention<Host>& op) {
    return flash_attention_scratch<Level>(parallel, op);
  }
};

}  // namespace inlay::cpu
