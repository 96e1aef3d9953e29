// paged_attention: the work is in attention/kernel.hpp. A part of a context is a split.
//
// Pages whose tokens are rows (flat_cache, head_major_cache) are rows by a block table; vLLM's have a source of
// their own.
//
// Bytes: K and V of what is visible, once; memory is the limit up to about three query heads a kv head where one fma
// of 16 lanes goes a cycle, six where two do.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/paged_attention.hpp>

#include "cpu_kernels/attention/kernel.hpp"
#include "cpu_kernels/attention/page_source.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

template <class Level>
Status paged_attention(const Parallel& parallel, const PagedAttention<Host>& op, Workspace workspace) {
  const AttentionCall call = attention_call<Level>(op, decode_split);
  if (call.k.cache.extents[2] == 1 && call.v.cache.extents[2] == 1)
    attention<Level, RowSource>(call, parallel, workspace);
  else
    attention<Level, PageSource>(call, parallel, workspace);
  return {};
}

// Sized by the table, not by this call's lengths: a captured step may see longer ones.
template <class Level> std::size_t paged_attention_scratch(const Parallel& parallel, const PagedAttention<Host>& op) {
  const AttentionCall call = attention_call<Level>(op, decode_split);
  const AttentionSequence longest{.queries = 1, .keys = call.max_kv_len};
  return attention_scratch_bytes(call, parallel, [&](index) { return longest; });
}

template <> struct Kernels<PagedAttention<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const PagedAttention<Host>& op, Workspace workspace) {
    return paged_attention<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel& parallel, const PagedAttention<Host>& op) {
    return paged_attention_scratch<Level>(parallel, op);
  }
};

}  // namespace inlay::cpu
