// The matrix unit on the host's SIMD: the device's order of summation, lane by lane.
//
//   sums[r][c] += sum over blocks of k_block products of (a[r][k] * b[k][c]), ascending k
//
// Lanes lie along c, so that every element sees exactly the operations that tiles::multiply does one by one.
//
//   a   rows of k floats              b   panels of `panel` columns, [k][panel] floats each
//       k ->                              c ->
//     r +----------+                    k +--------+ +--------+
//       | row      | x MR               | | panel  | | panel  |
//       +----------+                    v +--------+ +--------+
#pragma once

#include <inlay/core/dtype.hpp>
#include <inlay/core/isa.hpp>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/unroll.hpp"
#include "tile_machine/arithmetic/host_product.hpp"

namespace inlay::npu::host {

using tiles::Product, tiles::row_step;

// One specialisation per level, in product.cpp.
template <class Level> void multiply(const Product& product);
template <class Level> void widen(DType dtype, const void* from, float* to, index count);
template <class Level> index panel_columns();

template <class Level> struct Panel {
  using F = simd::Floats<Level>;
  static constexpr int vectors = F::size == 8 ? 2 : 4;  // 24 or 12 sums in registers
  static constexpr index columns = vectors * F::size;
};

template <class Level, bool fused>
INLAY_INLINE simd::Floats<Level> add_product(simd::Floats<Level> a, simd::Floats<Level> b, simd::Floats<Level> sum) {
  if constexpr (fused)
    return fma(a, b, sum);
  else
    return a * b + sum;
}

// row_step rows times the first `vectors` registers of a panel's lines.
template <class Level, bool fused, int vectors>
void multiply_panel(const float* a, const float* b, index k, index k_block, float* sums) {
  using F = simd::Floats<Level>;
  constexpr int rows = static_cast<int>(row_step);
  constexpr index columns = Panel<Level>::columns;
  F s[rows][vectors], line[vectors];
  const auto load_line = [&](index j) INLAY_INLINE_LAMBDA {
    simd::unroll<vectors>([&](auto v) INLAY_INLINE_LAMBDA { line[v] = F::load(b + j * columns + v * F::size); });
  };
  const auto step = [&](index j) INLAY_INLINE_LAMBDA {
    load_line(j);
    simd::unroll<rows>([&](auto r) INLAY_INLINE_LAMBDA {
      const F x(a[r * k + j]);
      simd::unroll<vectors>([&](auto v)
                                INLAY_INLINE_LAMBDA { s[r][v] = add_product<Level, fused>(x, line[v], s[r][v]); });
    });
  };
  const auto each = [&](auto&& body) INLAY_INLINE_LAMBDA {
    simd::unroll<rows>([&](auto r) INLAY_INLINE_LAMBDA {
      simd::unroll<vectors>([&](auto v) INLAY_INLINE_LAMBDA { body(r, v, sums + r * columns + v * F::size); });
    });
  };
  if (k_block == 1) {  // one by one: the sums themselves stay in registers
    each([&](auto r, auto v, const float* at) INLAY_INLINE_LAMBDA { s[r][v] = F::load(at); });
    for (index j = 0; j < k; ++j) step(j);
    each([&](auto r, auto v, float* at) INLAY_INLINE_LAMBDA { s[r][v].store(at); });
    return;
  }
  for (index first = 0; first < k; first += k_block) {
    const index end = first + k_block < k ? first + k_block : k;
    load_line(first);
    simd::unroll<rows>([&](auto r) INLAY_INLINE_LAMBDA {
      const F x(a[r * k + first]);
      simd::unroll<vectors>([&](auto v) INLAY_INLINE_LAMBDA { s[r][v] = x * line[v]; });
    });
    for (index j = first + 1; j < end; ++j) step(j);
    each([&](auto r, auto v, float* at) INLAY_INLINE_LAMBDA { (F::load(at) + s[r][v]).store(at); });
  }
}

template <class Level, bool fused> void multiply_all(const Product& p) {
  constexpr int vectors = Panel<Level>::vectors;
  constexpr index columns = Panel<Level>::columns;
  alignas(64) float sums[row_step * columns];
  for (index c = 0; c < p.columns; c += columns)
    for (index r = 0; r < p.rows; r += row_step) {
      const index width = p.columns - c < columns ? p.columns - c : columns;
      const index height = p.rows - r < row_step ? p.rows - r : row_step;
      for (index i = 0; i < row_step * columns; ++i) sums[i] = 0;
      if (!p.init)
        for (index i = 0; i < height; ++i)
          for (index j = 0; j < width; ++j) sums[i * columns + j] = p.acc[(r + i) * p.acc_pitch + c + j];
      const float *a = p.a + r * p.k, *b = p.b + c * p.k;
      if (2 * width > columns)
        multiply_panel<Level, fused, vectors>(a, b, p.k, p.k_block, sums);
      else
        multiply_panel<Level, fused, vectors / 2>(a, b, p.k, p.k_block, sums);
      for (index i = 0; i < height; ++i)
        for (index j = 0; j < width; ++j) p.acc[(r + i) * p.acc_pitch + c + j] = sums[i * columns + j];
    }
}

template <class Level, class T> void widen_all(const T* from, float* to, index count) {
  using F = simd::Floats<Level>;
  index i = 0;
  for (; i + F::size <= count; i += F::size) F::load(from + i).store(to + i);
  if (i < count) F::load(from + i, count - i).store(to + i, count - i);
}

}  // namespace inlay::npu::host
