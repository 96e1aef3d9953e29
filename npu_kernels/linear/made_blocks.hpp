// The right operand made where it is used: packed words, transposed into rows and made fractal, in the memory that the
// matrix unit reads. Nothing of it passes through global memory again.
//
//   load_vector  words    vector  transposed -> (codes: unpacked, times their group's scale) -> fractal    feed
#pragma once

#include <optional>

#include "npu_kernels/linear/products.hpp"
#include "npu_kernels/linear/w4_rows.hpp"

namespace inlay::npu {

// Elements of the unit's own type.
class MadeBlocks {
 public:
  MadeBlocks(Core& core, Scratch& scratch, const RowSource& source, const ProductTiles& tiles);
  void operator()(const Tensor& tile, index row, index rows, index k, index depth);

 private:
  Core& core_;
  index depth_;  // at once
  RowReader reader_;
  Tensor filled_;
};

// Codes without zero points, with scales of f16, as f16: w = f16((q - 2^(bits - 1)) scale), rounded once.
class MadeCodes {
 public:
  static bool takes(const W4Weight& weight);
  MadeCodes(Core& core, Scratch& scratch, const W4Weight& weight, const ProductTiles& tiles);
  void operator()(const Tensor& tile, index row, index rows, index k, index depth);

 private:
  Core& core_;
  W4Weight weight_;
  index depth_;
  RowReader codes_, scales_;
  Tensor bytes_, halves_;
};

}  // namespace inlay::npu
