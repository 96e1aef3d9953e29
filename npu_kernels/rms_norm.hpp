// y[r, :] = x[r, :] / sqrt(mean(x[r, :]^2) + eps) * weight, in one pass: a row stays in the vector's memory
// from its load to its store, all arithmetic is f32.
//
//   load_vector   rows of x     vector   the sum of squares, then the two products     store   rows of y
#pragma once

#include "npu_kernels/machine/device/problem.hpp"
#include "npu_kernels/machine/run/core.hpp"

namespace inlay::npu {

struct RmsNormOperands {
  Tensor x, weight, y;  // weight: one row
  float eps = 1e-6f;
};

void rms_norm(Core& core, const RmsNormOperands& op);

// x and the weight once, y once.
Problem rms_norm_problem(const RmsNormOperands& op);

}  // namespace inlay::npu
