// Outliers outliers: S[t,o] = sum_i clipped[t,i] (w[o,i] - weight_zero[o]). The clipped parts go in two halves, as f32
// operands do; differences of int8 are exact in f16.
#pragma once

#include "npu_kernels/linear/epilogue.hpp"
#include "npu_kernels/linear/split_f16.hpp"

namespace inlay::npu {

struct Outliers {
  RowSource clipped, weight;
  NdTensor weight_zero;  // rank 0: not given
  SplitF16 left, right;
  Products products;
  ProductTiles tiles;
  Tensor handover, sums;  // sums: [rows, channels] f32
};

Outliers shadow(GlobalMemory& memory, const Tensor& clipped, const RowSource& weight, const NdTensor& weight_zero);
void make_outliers(Core& core, const Outliers& shadow);

}  // namespace inlay::npu
