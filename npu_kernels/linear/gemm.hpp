// c[M, N] = a[M, K] * b[N, K]^T, double-buffered: i8 -> i32 or f16 -> f32.
//
//   load     a, b: chunks of K for one block of c           global -> staging, fractal
//   feed     the part that one product takes                staging -> left, right
//   matrix   sums over K                                    left x right -> accumulator
//   drain    a finished tile of sums                        accumulator -> global | vector -> global
//
// Each pipe works on its own step: the loads of the next chunk stand in their queue before the products of
// this one, and two accumulators let one drain while the other sums.
#pragma once

#include "npu_kernels/machine/device/problem.hpp"
#include "npu_kernels/machine/run/core.hpp"

namespace inlay::npu {

struct GemmOperands {
  Tensor a, b, c;
};

struct GemmTiles {
  index sum_m, sum_n;      // of c in one accumulator
  index block_m, block_n;  // of c for what is staged at once; one accumulator's where K comes in chunks
  index chunk_k, feed_k;   // of K in staging, in left and right
};

// The largest tiles that the memories hold twice.
GemmTiles gemm_tiles(const Device& device, index cores, const GemmOperands& op);

void gemm(Core& core, const GemmOperands& op);

// a and b once, c once.
Problem gemm_problem(const GemmOperands& op);

}  // namespace inlay::npu
