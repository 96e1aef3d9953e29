// Valid structs of the linear layers.
#pragma once

#include <algorithm>
#include <vector>

#include <inlay/inlay.hpp>

#include "measure/cases/draw.hpp"

namespace inlay::cases {

inline DType output_of(Draw& d, DType x) { return d.chance(50) ? DType::f32 : x; }

// How many experts there are, whose ends go to `ends`; 1 and no ends: there is one linear.
inline index draw_experts(Draw& d, index tokens, ConstView<1>& ends) {
  if (!d.chance(30)) return 1;
  std::vector<index> list(static_cast<std::size_t>(d.between(1, 5)));
  for (index& end : list) end = d.between(0, tokens);
  std::sort(list.begin(), list.end());
  list.back() = tokens;
  ends = d.list(DType::i32, list);
  return static_cast<index>(list.size());
}

inline void draw(Draw& d, Linear<Host>& op) {
  const index tokens = d.extent(20), k = d.extent(70), n = d.extent(40);
  const index experts = draw_experts(d, tokens, op.expert_ends);
  op.x = d.in<2>(d.floats(), {tokens, k});
  const DType type = d.floats();
  if (d.chance(50)) {
    op.weight_rows = d.in<2>(type, {experts * n, k});
  } else {
    const auto each = linear_packed_extents(n, k, type);
    op.weight = d.contiguous<3>(type, {experts * each[0], each[1], each[2]}, 0, 0);  // what lies beyond n and k is zero
    for (index e = 0; e < experts; ++e)
      for (index row = 0; row < n; ++row)
        for (index i = 0; i < k; ++i) {
          const auto [panel, step, lane] = linear_packed_at(row, i, type);
          Draw::set(op.weight, ((e * each[0] + panel) * each[1] + step) * each[2] + lane, d.real(-1, 1));
        }
  }
  if (d.chance(50)) op.bias = d.in<1>(d.floats(), {experts * n});
  op.y = d.out<2>(output_of(d, op.x.dtype), {tokens, n});
  op.compute = d.chance(40) ? LinearCompute::bf16_products : LinearCompute::exact_float;
}

inline void draw(Draw& d, LinearInt8<Host>& op) {
  using namespace linear_int8;
  const index tokens = d.extent(20), k = d.extent(70), n = d.extent(40);
  const index experts = draw_experts(d, tokens, op.expert_ends), channels = experts * n;
  const bool raw = d.chance(15), quantized = !raw && d.chance(30);
  const DType x =
      raw ? d.pick({DType::i8, DType::u8}) : d.pick({DType::i8, DType::u8, DType::f32, DType::f16, DType::bf16});
  const bool float_x = x != DType::i8 && x != DType::u8;
  op.x = d.in<2>(x, {tokens, k}, float_x ? -1 : x == DType::u8 ? 0 : -128, float_x ? 1 : x == DType::u8 ? 255 : 127);
  const auto each = packed_extents(n, k);
  op.weight = d.contiguous<3>(DType::i8, {experts * each[0], each[1], each[2]}, 0, 0);
  std::vector<index> sums(static_cast<std::size_t>(channels), 0);
  for (index channel = 0; channel < channels; ++channel)
    for (index i = 0; i < k; ++i) {
      const index w = d.between(-128, 127), o = channel % n, at = channel / n * each[0] + o / panel;
      sums[static_cast<std::size_t>(channel)] += w;
      Draw::set(op.weight, (at * each[1] + i / group) * line + o % panel * group + i % group, static_cast<double>(w));
    }
  op.weight_sum = d.list(DType::i32, sums);
  const auto one_or = [&](index count) { return d.chance(50) ? 1 : count; };
  if (!raw) op.weight_scale = d.in<1>(DType::f32, {one_or(channels)}, 0.001, 0.1);
  if (d.chance(30)) op.weight_zero = d.in<1>(DType::i8, {one_or(channels)}, -8, 8);
  const bool dynamic = float_x && d.chance(60);
  if (!raw && !dynamic) op.x_scale = d.in<1>(DType::f32, {one_or(tokens)}, 0.002, 0.02);
  if (!dynamic && d.chance(40)) op.x_zero = d.in<1>(float_x ? DType::i8 : x, {one_or(tokens)}, 0, 8);
  op.asymmetric = dynamic && d.chance(50);
  op.shadow_outliers = float_x && !dynamic && d.chance(50);
  if (!raw && d.chance(50)) op.bias = d.in<1>(d.floats(), {channels});
  op.y = d.out<2>(raw ? DType::i32 : quantized ? d.pick({DType::i8, DType::u8}) : d.floats(), {tokens, n});
  if (quantized) {
    op.y_scale = d.in<1>(DType::f32, {1}, 0.1, 1);
    if (d.chance(50)) op.y_zero = d.in<1>(op.y.dtype, {1}, 0, 8);
  }
}

inline void draw(Draw& d, LinearW4a16<Host>& op) {
  const index tokens = d.extent(20), k = d.extent(70), n = d.extent(40);
  const index experts = draw_experts(d, tokens, op.expert_ends), panels = experts * w4_panels(n);
  op.bits = d.pick<index>({4, 5, 6, 8});
  op.group = d.pick<index>({0, 8, 16, 32, 128, largest / 8 * 8});
  const index slots = k > 0 && d.chance(30) ? d.between(1, 80) : k;
  op.x = d.in<2>(d.floats(), {tokens, k});
  if (slots != k || d.chance(20)) op.perm = d.indices<1>(DType::i32, {slots}, -1, k - 1);
  op.codes = d.contiguous<3>(DType::u8, {panels, w4_steps(slots, op.bits), w4_step_bytes(op.bits)}, 0, 255);
  const std::array<index, 3> per_group{panels, w4_groups(slots, op.group), w4_panel};
  const bool in_units = op.group > 0 && w4_super_block % op.group == 0 && d.chance(30);
  const std::array<index, 3> per_super_block{panels, w4_super_blocks(slots), w4_panel};
  if (in_units) {
    op.scales = d.contiguous<3>(DType::i8, per_group, -128, 127);
    op.super_scales = d.contiguous<3>(DType::f16, per_super_block, -0.001, 0.001);
  } else {
    op.scales = d.contiguous<3>(d.floats(), per_group, -0.1, 0.1);
  }
  if (d.chance(40))
    op.zeros = d.contiguous<3>(d.pick({DType::u8, DType::f32, DType::f16, DType::bf16}), per_group, 0, 15);
  else if (d.chance(40))
    op.offsets = in_units ? d.contiguous<3>(DType::i8, per_group, -128, 127) : d.contiguous<3>(d.floats(), per_group);
  else if (op.bits == 4 && d.chance(50))
    op.codebook = d.in<1>(DType::i8, {w4_codebook}, -128, 127);
  if (in_units && op.offsets.present()) op.super_offsets = d.contiguous<3>(DType::f16, per_super_block, -0.01, 0.01);
  if (d.chance(50)) op.bias = d.in<1>(d.floats(), {experts * n});
  op.y = d.out<2>(output_of(d, op.x.dtype), {tokens, n});
  op.compute = d.chance(40) ? W4Compute::int8_activations : W4Compute::exact_float;
}

}  // namespace inlay::cases
