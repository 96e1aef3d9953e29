// A linear layer at some size, its weight packed or in rows.
#pragma once

#include <inlay/ops/linear.hpp>
#include <inlay/weights/linear_pack.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct LinearShape {
  index m = 512, n = 4096, k = 4096;
  DType type = DType::f16, weight = DType::f16, to = type;
  bool in_rows = false;
  LinearCompute compute = LinearCompute::exact_float;
  std::optional<DType> bias = {};

  void read(auto& from) {
    from.size("m", m), from.size("n", n), from.size("k", k);
    from.type("type", type), from.type("weight", weight), from.flag("rows", in_rows);
    to = type;
  }
  Linear<Host> make(Tensors& tensors) const {
    Linear<Host> op{.x = tensors.kept(type, {m, k}), .y = tensors.kept_out(to, {m, n}), .compute = compute};
    if (bias) op.bias = tensors.kept(*bias, {n});
    if (in_rows) {
      op.weight_rows = tensors.in(weight, {n, k});
      return op;
    }
    const auto rows = tensors.kept(weight, {n, k});
    op.weight = tensors.filled(rows.dtype, linear_packed_extents(n, k, rows.dtype),
                               [&](const View<3>& packed) { must_succeed(pack_linear(serial(), rows, packed)); });
    return op;
  }
  // By few rows, of which the weight is all there is to read.
  CallCost cost() const {
    const double size = static_cast<double>(n) * static_cast<double>(k);
    return {.bytes = size * bits(weight) / 8, .flops = 2 * size * static_cast<double>(m)};
  }
};

}  // namespace inlay
