// a + b at some size.
#pragma once

#include <inlay/ops/add.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct AddShape {
  index rows = 1024, dim = 4096;
  DType type = DType::f16, branch = type;
  bool is_bias = false;   // b is one row
  bool in_place = false;  // over a, as residual streams are

  void read(auto& from) {
    from.size("rows", rows), from.size("dim", dim), from.type("type", type);
    branch = type;
  }
  Add<Host> make(Tensors& tensors) const {
    const auto a = tensors.in(type, {rows, dim});
    return {.a = a,
            .b = tensors.in(branch, {is_bias ? 1 : rows, dim}),
            .y = in_place ? over(a) : tensors.out(type, {rows, dim})};
  }
  CallCost cost() const {
    const double y = bytes_of(type, rows * dim), b = bytes_of(branch, is_bias ? dim : rows * dim);
    return {.bytes = (in_place ? 2 : 3) * y + b, .written = y, .flops = static_cast<double>(rows * dim)};
  }
};

}  // namespace inlay
