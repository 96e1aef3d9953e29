// One case of flash_attention.
#pragma once

#include <inlay/ops/flash_attention.hpp>

#include "tests/support/attention_case.hpp"

namespace inlay::test {

struct Case : AttentionCase {
  Tensor<1> q_indptr, kv_indptr, kv_lens, q_start, mask_indptr, packed_mask;
  Tensor<2> table;
  Tensor<4> bias, mask;
  bool ragged_q = false, ragged_kv = false, lens = false, paged = false, starts = false, biased = false, masked = false;
  bool packed = false;
  index right = -1;

  using AttentionCase::AttentionCase;

  FlashAttention<Host> op() {
    auto op = common<FlashAttention<Host>>();
    if (ragged_q) op.q_indptr = q_indptr;
    if (ragged_kv) op.kv_indptr = kv_indptr;
    if (lens || paged) op.kv_lens = kv_lens;
    if (paged) op.block_table = table;
    if (starts) op.q_start = q_start;
    if (biased) op.bias = bias;
    if (masked) op.atten_mask = mask;
    if (packed) op.packed_mask = packed_mask, op.mask_indptr = mask_indptr;
    op.window_right = right;
    return op;
  }
};

inline Case make(const Shape& s, Rng& rng, DType type = DType::f32, DType kv = DType::f32, Layout layout = {},
                 bool swap = false) {
  return {s, rng, type, kv, type, layout, swap};
}

}  // namespace inlay::test
