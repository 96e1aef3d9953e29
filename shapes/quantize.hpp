// Codes of rows at some size, with a scale for each row that the call finds, or with one that is given.
#pragma once

#include <inlay/ops/quantize.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct QuantizeShape {
  index rows = 1024, dim = 4096;
  DType type = DType::f16, code = DType::i8;
  bool is_dynamic = true, has_zeros = code == DType::u8 || code == DType::u4;

  void read(auto& from) { from.size("rows", rows), from.size("dim", dim), from.type("type", type); }
  Quantize<Host> make(Tensors& tensors) const {
    Quantize<Host> op{.x = tensors.in(type, {rows, dim}), .y = tensors.out(code, {rows, dim})};
    const double step = 1.0 / (bits(code) == 4 ? 7 : 127);
    if (!is_dynamic) op.scale = tensors.kept(DType::f32, {1, 1}, {{step, step}});
    if (is_dynamic) op.row_scale = tensors.kept_out(DType::f32, {rows});
    if (is_dynamic && has_zeros) op.row_zero = tensors.kept_out(code, {rows});
    return op;
  }
  // The second look at a row finds it in the cache.
  CallCost cost() const {
    const double y = bytes_of(code, rows * dim);
    return {.bytes = bytes_of(type, rows * dim) + 2 * y, .written = y};
  }
};

}  // namespace inlay
