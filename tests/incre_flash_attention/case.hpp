// One case of incre_flash_attention.
#pragma once

#include <inlay/ops/incre_flash_attention.hpp>

#include "tests/support/attention_case.hpp"

namespace inlay::test {

struct Case : AttentionCase {
  std::vector<Tensor<3>> k_parts, v_parts;  // instead of k and v
  std::vector<ConstView<3>> k_views, v_views;
  Tensor<3> mask;
  Tensor<1> lengths;
  Tensor<2> out_scale, out_offset;
  Tensor<4> pse;
  bool left_padding = false;
  index padding = 0;

  using AttentionCase::AttentionCase;

  IncreFlashAttention<Host> op() {
    auto op = common<IncreFlashAttention<Host>>();
    if (!k_parts.empty()) {
      k_views.assign(k_parts.begin(), k_parts.end());
      v_views.assign(v_parts.begin(), v_parts.end());
      op.k = op.v = {};
      op.k_list = k_views, op.v_list = v_views;
    }
    op.actual_seq_lengths = lengths;
    op.pse_shift = pse, op.atten_mask = mask;
    op.out_scale = out_scale, op.out_offset = out_offset;
    op.kv_left_padding = left_padding, op.kv_padding = padding;
    return op;
  }
};

inline Case make(const Shape& s, Rng& rng, DType type = DType::f32, DType kv = DType::f32, DType out = DType::f32,
                 Layout layout = {}, bool swap = false) {
  Case c(s, rng, type, kv, out, layout, swap);
  if (out == DType::i8) {
    c.out_scale = Tensor<2>(DType::f32, {1, 1}).fill(300);
    c.out_offset = Tensor<2>(DType::f32, {1, 1}).fill(-3);
  }
  return c;
}

}  // namespace inlay::test
