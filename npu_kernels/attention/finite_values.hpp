// Is every value of V that some row sees a number? Where rows see different keys, products on the matrix unit give a
// hidden key the weight 0, and 0 times an infinity is none. All vector units look at V once, before the products.
#pragma once

#include "npu_kernels/attention/problem.hpp"
#include "npu_kernels/machine/run/core.hpp"

namespace inlay::npu {

// A flag for each vector unit.
Tensor finite_flags(GlobalMemory& memory);

// The same answer on every stream of every core.
bool values_are_finite(Core& core, const AttentionProblem& problem, const Tensor& flags);

}  // namespace inlay::npu
