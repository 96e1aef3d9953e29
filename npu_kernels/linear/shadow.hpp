// Shadow outliers: S[t,o] = sum_i clipped[t,i] (w[o,i] - weight_zero[o]). The clipped parts go in two halves, as f32
// operands do; differences of int8 are exact in f16.
#pragma once

#include "npu_kernels/linear/float_epilogue.hpp"
#include "npu_kernels/linear/halves.hpp"

namespace inlay::npu {

struct Shadow {
  RowSource clipped, weight;
  NdTensor weight_zero;  // rank 0: not given
  Halves left, right;
  Products products;
  ProductTiles tiles;
  Tensor handover, sums;  // sums: [rows, channels] f32
};

Shadow shadow(GlobalMemory& memory, const Tensor& clipped, const RowSource& weight, const NdTensor& weight_zero);
void make_shadow(Core& core, const Shadow& shadow);

}  // namespace inlay::npu
