// The options that operators of attention have in common, each with a chance of its own.
#pragma once

#include "tests/attention/case.hpp"

namespace inlay::test {

struct DrawRange {
  index min_keys, max_keys, batch, queries, heads, group, dim;
};

// Bias, mask, ALiBi, sinks, windows, softcap, scale. Rows of bias and mask have `spare` elements that belong to no key.
inline void draw_options(AttentionCase& c, Draw& draw, const ProblemShape& s, index split, bool masks_of_heads,
                         index spare, Layout layout) {
  const index heads = s.kv_heads * s.group;
  const auto extents = [&](bool of_heads) {
    return std::array<index, 4>{draw.chance(2) ? s.batch : 1, of_heads && draw.chance(2) ? heads : 1,
                                draw.chance(2) ? s.queries : 1, s.keys + spare};
  };
  if (draw.chance(3)) {
    c.bias = {draw.of(float_types), extents(true), layout};
    c.bias.uniform(draw.rng);
    for (index i = 0; i < c.bias.size() / 9; ++i) c.bias.set(draw(0, c.bias.size() - 1), -infinity);
    for (index i = 0; i < c.bias.size(); ++i)
      if (i % (s.keys + spare) >= s.keys) c.bias.set(i, nan);
  }
  if (draw.chance(3)) {
    c.mask = {DType::boolean, extents(masks_of_heads), layout};
    c.mask.integers(draw.rng, 0, 1);
  }
  if (draw.chance(4)) c.alibi = draw.chance(2) ? alibi_slopes(heads) : slight_slopes(heads, s.keys, draw.rng);
  if (draw.chance(4)) c.sinks = random_sinks(heads, draw.rng);
  c.causal = draw.chance(3);
  if (draw.chance(3)) c.left = draw.of(windows_around(split, s.keys));
  c.softcap = draw.chance(4) ? 3.0f : 0.0f;
  c.order = draw.of(bias_orders);
  c.scale = draw.chance(3) ? draw.of(std::array{0.25f, -0.4f, 1.0f}) : 0.0f;
}

// Scales of int8 K and V, and half of the time offsets of a kind of their own; slots(draw) gives extents that are
// neither a tensor's nor a channel's.
template <class Slots>
void draw_quantization(AttentionCase& c, Draw& draw, index kv_heads, index dim, index v_dim, Slots&& slots,
                       Layout layout) {
  const auto draw_one = [&](DType type, index width, double high, Tensor<4>& scale, Tensor<4>& offset) {
    if (type != DType::i8) return;
    const auto quant = [&](index kind) {
      return kind == 0   ? Tensor<4>(DType::f32, {1, 1, 1, 1})
             : kind == 1 ? Tensor<4>(DType::f32, {1, 1, kv_heads, width})
                         : Tensor<4>(DType::f32, slots(kind), layout);
    };
    const index kind = draw(0, 3);
    scale = quant(kind).uniform(draw.rng, 0.002, high);
    if (draw.chance(2)) offset = quant(draw.chance(2) ? kind : draw(0, 3)).uniform(draw.rng, -20, 20);
  };
  draw_one(c.k.memory.dtype(), dim, 0.008, c.k_scale, c.k_offset);
  draw_one(c.v.memory.dtype(), v_dim, 0.004, c.v_scale, c.v_offset);
}

}  // namespace inlay::test
