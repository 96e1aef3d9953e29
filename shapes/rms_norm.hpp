// rms_norm of rows, or of the heads in them, at some size.
#pragma once

#include <inlay/ops/rms_norm.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct RmsNormShape {
  index rows = 1024, dim = 4096;  // dim is of a head
  DType type = DType::f16, to = type, weight = DType::f32;
  bool has_residual = false;
  index heads = 1;
  float weight_offset = 0;

  void read(auto& from) {
    from.size("rows", rows), from.size("dim", dim), from.type("type", type);
    from.type("to", to = type), from.flag("residual", has_residual);
  }
  RmsNorm<Host> make(Tensors& tensors) const {
    const index columns = heads * dim;
    return {.x = tensors.in(type, {rows, columns}),
            .weight = tensors.kept(weight, {dim}, {{0.5, 1.5}}),
            .residual = has_residual ? tensors.inout(type, {rows, columns}) : View<2>(),
            .y = tensors.out(to, {rows, columns}),
            .y_scale = to == DType::i8 ? tensors.out(DType::f32, {rows}) : View<1>(),
            .heads = heads,
            .weight_offset = weight_offset};
  }
  CallCost cost() const {
    const index size = rows * heads * dim;
    const double x = bytes_of(type, size), written = bytes_of(to, size) + (has_residual ? x : 0);
    return {.bytes = x + 2 * written, .written = written, .flops = 4 * static_cast<double>(size)};
  }
};

}  // namespace inlay
