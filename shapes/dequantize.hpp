// Numbers of codes at some size, with a scale for each row, each column or each group of columns.
#pragma once

#include <inlay/ops/dequantize.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct DequantizeShape {
  index rows = 1024, dim = 4096;
  DType from = DType::i8, type = DType::f16, scale = DType::f32;
  index scale_rows = rows, scale_columns = 1, column_group = 0;
  bool has_zeros = false;

  void read(auto& given) {
    given.size("rows", rows), given.size("dim", dim), given.type("from", from), given.type("type", type);
    scale_rows = rows;
  }
  Dequantize<Host> make(Tensors& tensors) const {
    return {.x = tensors.in(from, {rows, dim}),
            .scale = tensors.kept(scale, {scale_rows, scale_columns}, {{0.01, 0.1}}),
            .zero = has_zeros ? tensors.kept(from, {scale_rows, scale_columns}, {{-3, 3}}) : ConstView<2>(),
            .y = tensors.out(type, {rows, dim}),
            .column_group = column_group};
  }
  CallCost cost() const {
    const double y = bytes_of(type, rows * dim);
    return {.bytes = bytes_of(from, rows * dim) + 2 * y, .written = y};
  }
};

}  // namespace inlay
