// A linear layer of int8 weights at some size: by codes with a scale for each row, or by floats that it quantizes.
#pragma once

#include <inlay/ops/linear_int8.hpp>
#include <inlay/weights/linear_int8_pack.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct LinearInt8Shape {
  index m = 512, n = 4096, k = 4096;
  DType type = DType::f16, to = DType::f16;

  void read(auto& from) {
    from.size("m", m), from.size("n", n), from.size("k", k), from.type("type", type), from.type("to", to);
  }
  LinearInt8<Host> make(Tensors& tensors) const {
    const auto rows = tensors.kept(DType::i8, {n, k}, {{-127, 127}});
    const View<1> sums = over(tensors.list(DType::i32, {n}, [](index) { return 0; }));
    const auto pack = [&](const View<3>& packed) { must_succeed(pack_linear_int8(rows, packed, sums)); };
    return {.x = tensors.kept(type, {m, k}),
            .x_scale = type == DType::i8 ? tensors.kept(DType::f32, {m}, {{0.002, 0.02}}) : ConstView<1>(),
            .weight = tensors.filled(DType::i8, linear_int8::packed_extents(n, k), pack),
            .weight_sum = sums,
            .weight_scale = tensors.kept(DType::f32, {n}, {{0.01, 0.02}}),
            .y = tensors.kept_out(to, {m, n})};
  }
  // By few rows, of which the weight is all there is to read.
  CallCost cost() const {
    const double size = static_cast<double>(n) * static_cast<double>(k);
    return {.bytes = size, .flops = 2 * size * static_cast<double>(m)};
  }
};

}  // namespace inlay
