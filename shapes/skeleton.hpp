// The skeleton at some size: which tensors it has there, what a call moves and computes.
#pragma once

#include <inlay/ops/skeleton.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct SkeletonShape {
  index rows = 512, dim = 4096;
  DType type = DType::f32;

  void read(auto& from) { from.size("rows", rows), from.size("dim", dim), from.type("type", type); }
  Skeleton<Host> make(Tensors& tensors) const {
    return {.x = tensors.in(type, {rows, dim}), .y = tensors.out(type, {rows, dim}), .slope = 2};
  }
  // x is read, y's lines are read and written: 3 transfers of the row.
  CallCost cost() const {
    const double y = bytes_of(type, rows * dim);
    return {.bytes = 3 * y, .written = y, .flops = 2 * static_cast<double>(rows * dim)};
  }
};

}  // namespace inlay
