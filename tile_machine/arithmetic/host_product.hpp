// The matrix unit of functional mode, by a host's SIMD that whoever runs the machine may hand it
// (npu_kernels/backend/host): the machine packs the operands, the host multiplies. Without one the machine's own loop does.
//
//   sums[r][c] += sum over blocks of k_block products of (a[r][k] * b[k][c]), ascending k
//
//   a   rows of k floats              b   panels of `panel` columns, [k][panel] floats each
//       k ->                              c ->
//     r +----------+                    k +--------+ +--------+
//       | row      | x row_step         | | panel  | | panel  |
//       +----------+                    v +--------+ +--------+
#pragma once

#include <inlay/core/dtype.hpp>

namespace inlay::npu::tiles {

// Operands of one product, widened to f32.
struct Product {
  const float* a = nullptr;  // rows of it, a multiple of row_step (the last ones may be anything)
  const float* b = nullptr;
  index rows = 0, columns = 0, k = 0;
  index k_block = 1;
  bool fused = true;
  bool init = false;
  float* acc = nullptr;  // rows x columns, acc_pitch floats apart
  index acc_pitch = 0;
};

inline constexpr index row_step = 6;  // rows of a that meet a panel at once

struct HostProduct {
  void (*multiply)(const Product&) = nullptr;
  void (*widen)(DType, const void* from, float* to, index count) = nullptr;
  index panel = 0;  // columns
};

}  // namespace inlay::npu::tiles
