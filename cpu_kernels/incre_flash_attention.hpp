// incre_flash_attention: the work is in attention/kernel.hpp. Rows are few: keys are read where they lie, summed over
// lanes, and never transposed.
//
// Bytes: K and V once; one fma a register of K or V and row. The limit is memory up to about three rows
// (group * q_len) where one fma of 16 lanes goes a cycle, six where two do.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/incre_flash_attention.hpp>

#include "cpu_kernels/attention/kernel.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

template <class Level>
Status incre_flash_attention(const Parallel& parallel, const IncreFlashAttention<Host>& op, Workspace workspace) {
  attention<Level, RowSource>(attention_call<Level>(op, decode_split), parallel, workspace);
  return {};
}

template <class Level>
std::size_t incre_flash_attention_scratch(const Parallel& parallel, const IncreFlashAttention<Host>& op) {
  const AttentionCall call = attention_call<Level>(op, decode_split);
  return attention_scratch_bytes(call, parallel, [&](index b) { return attention_sequence(call, b); });
}

template <> struct Kernels<IncreFlashAttention<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const IncreFlashAttention<Host>& op, Workspace workspace) {
    return incre_flash_attention<Level>(parallel, op, workspace);
  }
  template <class Level>
  static std::size_t scratch_bytes(const Parallel& parallel, const IncreFlashAttention<Host>& op) {
    return incre_flash_attention_scratch<Level>(parallel, op);
  }
};

}  // namespace inlay::cpu
