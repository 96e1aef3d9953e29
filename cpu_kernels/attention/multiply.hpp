// The product of attention with many queries, over tiles of f32 in scratch: p V, and q K^T over keys
// packed as columns.
//
//   c[rows][cols] = c * factor + a[rows][depth] b[depth][cols]
//
// Each element is summed in one fixed order, whatever rows share its register tile.
#pragma once

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/inline.hpp"

namespace inlay::cpu {

// rows x vectors accumulators, `vectors` registers of b and one of a: 29 of 32, 15 of 16.
template <class Level> struct MultiplyTile { static constexpr int rows = 3, vectors = 4; };
template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct MultiplyTile<Level> {
  static constexpr int rows = 6, vectors = 2;
};
template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct MultiplyTile<Level> {
  static constexpr int rows = 6, vectors = 4;
};

template <class Level, int Rows, int Vectors>
void multiply_block(const float* a, index a_stride, const float* b, index b_stride, index depth, float* c,
                    index c_stride, const float* factor) {
  using F = simd::Floats<Level>;
  // Bare registers: GCC 12 runs the constructors of an array of F in a loop over memory.
  decltype(F::v) sum[Rows][Vectors];
  INLAY_UNROLL
  for (int r = 0; r < Rows; ++r) {
    INLAY_UNROLL
    for (int v = 0; v < Vectors; ++v)
      sum[r][v] = factor != nullptr ? (F::load(c + r * c_stride + v * F::size) * F(factor[r])).v : F().v;
  }
  for (index k = 0; k < depth; ++k) {
    decltype(F::v) row[Vectors];
    INLAY_UNROLL
    for (int v = 0; v < Vectors; ++v) row[v] = F::load(b + k * b_stride + v * F::size).v;
    INLAY_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const F x(a[r * a_stride + k]);
      INLAY_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[r][v] = fma(x, F(row[v]), F(sum[r][v])).v;
    }
  }
  INLAY_UNROLL
  for (int r = 0; r < Rows; ++r) {
    INLAY_UNROLL
    for (int v = 0; v < Vectors; ++v) F(sum[r][v]).store(c + r * c_stride + v * F::size);
  }
}

// The last rows of a strip: fewer than a full register tile.
template <class Level, int Rows, int Vectors>
void multiply_rest(const float* a, index a_stride, index rows, const float* b, index b_stride, index depth, float* c,
                   index c_stride, const float* factor) {
  if constexpr (Rows > 0) {
    if (rows == Rows)
      multiply_block<Level, Rows, Vectors>(a, a_stride, b, b_stride, depth, c, c_stride, factor);
    else
      multiply_rest<Level, Rows - 1, Vectors>(a, a_stride, rows, b, b_stride, depth, c, c_stride, factor);
  }
}

template <class Level, int Vectors>
void multiply_strip(const float* a, index a_stride, index rows, const float* b, index b_stride, index depth, float* c,
                    index c_stride, const float* factor) {
  constexpr int full = MultiplyTile<Level>::rows;
  index r = 0;
  for (; r + full <= rows; r += full)
    multiply_block<Level, full, Vectors>(a + r * a_stride, a_stride, b, b_stride, depth, c + r * c_stride, c_stride,
                                         factor != nullptr ? factor + r : nullptr);
  multiply_rest<Level, full - 1, Vectors>(a + r * a_stride, a_stride, rows - r, b, b_stride, depth, c + r * c_stride,
                                          c_stride, factor != nullptr ? factor + r : nullptr);
}

// `cols` is a multiple of lane_pad. A strip of b stays in L1 while the rows pass over it.
template <class Level>
void multiply(const float* a, index a_stride, index rows, const float* b, index b_stride, index cols, index depth,
              float* c, index c_stride, const float* factor) {
  constexpr index lanes = simd::Floats<Level>::size;
  constexpr int widest = MultiplyTile<Level>::vectors;
  index done = 0;
  for (; done + widest * lanes <= cols; done += widest * lanes)
    multiply_strip<Level, widest>(a, a_stride, rows, b + done, b_stride, depth, c + done, c_stride, factor);
  if constexpr (widest * lanes > lane_pad)
    for (; done < cols; done += lane_pad)
      multiply_strip<Level, lane_pad / lanes>(a, a_stride, rows, b + done, b_stride, depth, c + done, c_stride, factor);
}

// Is every element of `count` floats finite? x * 0 is 0 for finite x and NaN otherwise.
template <class Level> bool all_finite(const float* x, index count) {
  using F = simd::Floats<Level>;
  F sum;
  for (index i = 0; i < count; i += F::size) sum = fma(F::load(x + i), F(0.0f), sum);
  return reduce_sum(sum) == 0;
}

// o = o * factor + P V, weights `key_tile` apart, no factor: o = P V. Where a mask covers a key for some
// rows only and its V is not finite, the rows that do not see it must not meet it: 0 * NaN would be NaN.
template <class Level>
void tile_values(const float* weights, index rows, const float* v, index keys, index pad, bool mixed, float* o,
                 const float* factor) {
  using F = simd::Floats<Level>;
  if (!mixed || all_finite<Level>(v, keys * pad))
    return multiply<Level>(weights, key_tile, rows, v, pad, pad, keys, o, pad, factor);
  for (index r = 0; r < rows; ++r, o += pad) {
    for (index d = 0; d < pad; d += F::size) (factor ? F::load(o + d) * F(factor[r]) : F()).store(o + d);
    for (index j = 0; j < keys; ++j) {
      const float weight = weights[r * key_tile + j];
      if (weight == 0) continue;
      for (index d = 0; d < pad; d += F::size) fma(F(weight), F::load(v + j * pad + d), F::load(o + d)).store(o + d);
    }
  }
}

}  // namespace inlay::cpu
