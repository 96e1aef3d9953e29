// layer_norm of rows at some size.
#pragma once

#include <inlay/ops/layer_norm.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct LayerNormShape {
  index rows = 1024, dim = 4096;
  DType type = DType::f16, weight = DType::f32;
  bool has_bias = true, has_residual = false;
  float eps = 1e-5f;

  void read(auto& from) {
    from.size("rows", rows), from.size("dim", dim), from.type("type", type);
    from.flag("bias", has_bias), from.flag("residual", has_residual);
  }
  LayerNorm<Host> make(Tensors& tensors) const {
    return {.x = tensors.in(type, {rows, dim}),
            .weight = tensors.kept(weight, {dim}, {{0.5, 1.5}}),
            .bias = has_bias ? tensors.kept(weight, {dim}) : ConstView<1>(),
            .residual = has_residual ? tensors.inout(type, {rows, dim}) : View<2>(),
            .y = tensors.out(type, {rows, dim}),
            .eps = eps};
  }
  CallCost cost() const {
    const double x = bytes_of(type, rows * dim), written = has_residual ? 2 * x : x;
    return {.bytes = x + 2 * written, .written = written, .flops = 12 * static_cast<double>(rows * dim)};
  }
};

}  // namespace inlay
