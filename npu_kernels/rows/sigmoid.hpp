// sigmoid(z) = e / (1 + e) with e = exp(min(z, 32)): from there on it is 1 in f32, and below e is as small as the
// sigmoid itself, so that the negative side keeps its relative accuracy and nothing overflows. min loses a NaN, which
// an operator brings back with the factor that it came from.
#pragma once

#include "tile_machine/run/core.hpp"

namespace inlay::npu::rows {

// z becomes its sigmoid; `spare` has its shape.
inline void sigmoid(Core& core, const Tensor& z, const Tensor& spare) {
  core.vscalar(VectorOp::min, z, z, 32.0f);
  core.vunary(VectorOp::exp, z, z);
  core.vscalar(VectorOp::add, spare, z, 1.0f);
  core.vbinary(VectorOp::div, z, z, spare);
}

}  // namespace inlay::npu::rows
