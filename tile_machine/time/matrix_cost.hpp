// Cycles of one product C[m, n] += A[m, k] * B[k, n] on the matrix unit, without its head.
//
// Systolic array of R x C cells, as SCALE-Sim v3 counts it: the operands are folded over the array, and
// every fold fills and drains it.
//   weight-stationary  a fold holds R x C of B: R cycles to load it, M rows pass, R + C - 2 of skew
//                      ceil(K/R) * ceil(N/C) * (2R + C + M - 2) - 1
//     hidden preload   only the first fold's R cycles are seen: a fold's stream of R + C + M - 2 cycles is
//                      always long enough to load the next weights behind it
//                      R + ceil(K/R) * ceil(N/C) * (R + C + M - 2) - 1
//     pipelined folds  .. and the rows of a fold enter right behind those of the one before it, as soon as its
//                      weights are there: skew is seen once
//                      R + (ceil(K/R) * ceil(N/C) - 1) * max(M, R) + (R + C + M - 2) - 1
//   output-stationary  a fold holds R x C of C: K products pass, R + C - 2 of skew
//                      ceil(M/R) * ceil(N/C) * (K + R + C - 2) - 1
// Only M is not folded on a weight-stationary array: A*B and B^T*A^T cost differently. Several arrays share the
// folds: ceil(folds / arrays) stand where the folds stood.
//
// Fixed tile of m x n x k a step:  ceil(N/n) * ceil(K/k) * (weights + ceil(M/m) * cycles), where `weights` are the
// cycles to bring a k x n tile of the right operand in, and to turn it if it goes against the unit's order.
//
// M counts as the next multiple of the unit's m_granule.
#pragma once

#include "tile_machine/device/device.hpp"

namespace inlay::npu {

double matrix_cycles(const MatrixUnit& unit, const MatrixRate& rate, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                     bool turned = false);

// Multiply-adds of one cycle when every cell works: the bound that no shape beats.
double peak_products(const MatrixUnit& unit, const MatrixRate& rate);

}  // namespace inlay::npu
