// Sums of products of halves become y, on the vector unit:
//
//   y = (C00 + (C01 + C10 + C11)) 2^-14.. p_x p_w + bias       Cij: part i of x times part j of w
//
// where C00, of the high halves, is finite; else it is y: it alone has seen the infinities and NaN as they are.
#pragma once

#include <optional>

#include "npu_kernels/linear/finished_rows.hpp"
#include "npu_kernels/linear/products.hpp"
#include "npu_kernels/linear/scratch.hpp"

namespace inlay::npu {

struct FloatResult {
  NdTensor y, bias;             // bias of rank 0: none
  Tensor row_power, col_power;  // [1, rows], [1, columns] f32 in global memory, or none
};

class FloatEpilogue {
 public:
  FloatEpilogue(Core& core, Scratch& scratch, const FloatResult& result, const ProductTiles& tiles, index steps);
  void operator()(const Sums& sums);

 private:
  Tensor total(const Sums& sums);
  void scale(const Tensor& y, index row, index column);

  Core& core_;
  FloatResult to_;
  index steps_;
  Tensor kept_, rest_, work_, other_;
  FinishedRows finished_;
  std::optional<Ring> row_powers_, col_powers_;
};

}  // namespace inlay::npu
