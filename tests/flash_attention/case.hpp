// One case of flash_attention.
#pragma once

#include <inlay/ops/flash_attention.hpp>

#include "tests/support/attention_case.hpp"

namespace inlay::test {

struct Case : AttentionCase {
  Tensor<1> q_indptr, kv_indptr, kv_lens, q_start, mask_indptr, packed_mask;
  Tensor<2> table;
  Tensor<4> bias, mask;
  index right = -1;

  using AttentionCase::AttentionCase;

  FlashAttention<Host> op() {
    auto op = common<FlashAttention<Host>>();
    op.q_indptr = q_indptr, op.kv_indptr = kv_indptr;
    op.kv_lens = kv_lens, op.block_table = table, op.q_start = q_start;
    op.bias = bias, op.atten_mask = mask;
    op.packed_mask = packed_mask, op.mask_indptr = mask_indptr;
    op.window_right = right;
    return op;
  }
};

inline Case make(const Shape& s, Rng& rng, DType type = DType::f32, DType kv = DType::f32, Layout layout = {},
                 bool swap = false) {
  return {s, rng, type, kv, type, layout, swap};
}

}  // namespace inlay::test
