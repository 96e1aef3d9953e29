// softmax of rows, by heads, at some size.
#pragma once

#include <inlay/ops/softmax.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct SoftmaxShape {
  index heads = 1, rows = 1024, n = 4096;
  DType type = DType::f16;
  float scale = 1;
  std::optional<DType> mask = {};  // one for all heads
  bool has_sink = false, log = false;

  void read(auto& from) {
    from.size("heads", heads), from.size("rows", rows), from.size("n", n), from.type("type", type);
  }
  Softmax<Host> make(Tensors& tensors) const {
    return {.x = tensors.in(type, {heads, rows, n}, {{-8, 8}}),
            .mask = mask ? tensors.in(*mask, {1, rows, n}) : ConstView<3>(),
            .sink = has_sink ? tensors.in(DType::f32, {heads}) : ConstView<1>(),
            .y = tensors.out(type, {heads, rows, n}),
            .scale = scale,
            .log = log};
  }
  CallCost cost() const {
    const double y = bytes_of(type, heads * rows * n), bias = mask ? bytes_of(*mask, rows * n) : 0;
    return {.bytes = 3 * y + bias, .written = y, .flops = 30 * static_cast<double>(heads * rows * n)};
  }
};

}  // namespace inlay
