// silu(gate) * up at some size.
#pragma once

#include <inlay/ops/swiglu.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct SwigluShape {
  index rows = 1024, dim = 14336;
  DType type = DType::f16;
  bool in_place = false;
  float limit = std::numeric_limits<float>::infinity();

  void read(auto& from) { from.size("rows", rows), from.size("dim", dim), from.type("type", type); }
  Swiglu<Host> make(Tensors& tensors) const {
    const auto gate = tensors.in(type, {rows, dim}, {{-4, 4}});
    return {.gate = gate,
            .up = tensors.in(type, {rows, dim}),
            .y = in_place ? over(gate) : tensors.out(type, {rows, dim}),
            .limit = limit};
  }
  CallCost cost() const {
    const double y = bytes_of(type, rows * dim);
    return {.bytes = (3 + !in_place) * y, .written = y, .flops = 25 * static_cast<double>(rows * dim)};
  }
};

}  // namespace inlay
