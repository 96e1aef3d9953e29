// A linear layer of codes in groups at some size.
#pragma once

#include <inlay/ops/linear_w4a16.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct LinearW4a16Shape {
  index m = 1, n = 4096, k = 4096, group = 128;
  DType type = DType::f16, to = type, scales = DType::f16;
  index bits = 4;
  bool has_zeros = true, has_offsets = false;  // offsets have the type of the scales
  bool has_codebook = false;                   // in place of both
  int largest_of_codebook = 127;               // and its negative is the least
  bool in_units = false;                       // scales and offsets are i8, in units of super-blocks
  W4Compute compute = W4Compute::exact_float;
  std::optional<DType> bias = {};

  void read(auto& from) {
    from.size("m", m), from.size("n", n), from.size("k", k), from.size("group", group), from.type("type", type);
    from.flag("codebook", has_codebook), from.flag("units", in_units);
    has_zeros = has_zeros && !has_codebook;
    to = type;
  }
  LinearW4a16<Host> make(Tensors& tensors) const {
    const index per_group[] = {w4_panels(n), w4_groups(k, group), w4_panel};
    const index per_super_block[] = {w4_panels(n), w4_super_blocks(k), w4_panel};
    const auto counts = [&] { return tensors.in(DType::i8, per_group, {{0, 63}}); };
    const auto units = [&](bool present) {
      return present ? tensors.in(DType::f16, per_super_block, {{0.0002, 0.0003}}) : ConstView<3>();
    };
    const auto far = static_cast<double>(largest_of_codebook);
    return {.x = tensors.kept(type, {m, k}),
            .codes = tensors.in(DType::u8, {w4_panels(n), w4_steps(k, bits), w4_step_bytes(bits)}),
            .scales = in_units ? counts() : tensors.in(scales, per_group, {{0.01, 0.02}}),
            .zeros = has_zeros ? tensors.in(DType::u8, per_group, {{0, 15}}) : ConstView<3>(),
            .offsets = !has_offsets ? ConstView<3>()
                       : in_units   ? counts()
                                    : tensors.in(scales, per_group),
            .super_scales = units(in_units),
            .super_offsets = units(in_units && has_offsets),
            .codebook = has_codebook ? tensors.in(DType::i8, {w4_codebook}, {{-far, far}}) : ConstView<1>(),
            .bias = bias ? tensors.kept(*bias, {n}) : ConstView<1>(),
            .y = tensors.kept_out(to, {m, n}),
            .group = group,
            .bits = bits,
            .compute = compute};
  }
  // x and y are below 0.1% of what few rows read.
  CallCost cost() const {
    const index per_group = w4_panels(n) * w4_groups(k, group) * w4_panel;
    const double codes = bytes_of(DType::u8, w4_panels(n) * w4_steps(k, bits) * w4_step_bytes(bits));
    const double scale_bytes =
        in_units ? bytes_of(DType::i8, per_group) + bytes_of(DType::f16, w4_panels(n) * w4_super_blocks(k) * w4_panel)
                 : bytes_of(scales, per_group);
    return {.bytes = codes + (1 + has_offsets) * scale_bytes + (has_zeros ? bytes_of(DType::u8, per_group) : 0),
            .flops = 2 * static_cast<double>(m * n * k)};
  }
};

}  // namespace inlay
