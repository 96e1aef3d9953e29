// The two products of attention over one tile of keys, with register tiles.
//
//   multiply    c[rows][cols] = c * factor + a[rows][depth] b[depth][cols]      p V, and q K^T over packed keys
//   dot_rows    s[rows][keys] = q[rows][dim] k[keys][dim]^T                     a few rows: each key read in place
//
// Each element is summed in one fixed order, whatever rows share its register tile.
#pragma once

#include "cpu_kernels/attention_problem.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/prefetch.hpp"
#include "cpu_kernels/simd/transpose.hpp"

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

// Four keys by Rows rows; keys beyond the last repeat it.
template <class Level, class T, int Rows>
void dot_block(const float* q, index q_stride, const T* k, index k_stride, index keys, index dim, float* s) {
  using F = simd::Floats<Level>;
  const T* const key[4] = {k, k + (keys > 1 ? k_stride : 0), k + (keys > 2 ? 2 * k_stride : 0),
                           k + (keys > 3 ? 3 * k_stride : 0)};
  decltype(F::v) sum[Rows][4];
  INLAY_UNROLL
  for (int r = 0; r < Rows; ++r) {
    INLAY_UNROLL
    for (int j = 0; j < 4; ++j) sum[r][j] = F().v;
  }
  const auto step = [&](index d, auto load) {
    decltype(F::v) x[4];
    INLAY_UNROLL
    for (int j = 0; j < 4; ++j) x[j] = load(key[j] + d).v;
    INLAY_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const F y = F::load(q + r * q_stride + d);  // padded with zeros
      INLAY_UNROLL
      for (int j = 0; j < 4; ++j) sum[r][j] = fma(F(x[j]), y, F(sum[r][j])).v;
    }
  };
  index d = 0;
  for (; d + F::size <= dim; d += F::size) step(d, [](const T* p) { return F::load(p); });
  if (d < dim) step(d, [n = dim - d](const T* p) { return F::load(p, n); });
  INLAY_UNROLL
  for (int r = 0; r < Rows; ++r)
    simd::store_sums<Level>(F(sum[r][0]), F(sum[r][1]), F(sum[r][2]), F(sum[r][3]), s + r * key_tile);
}

// s rows lie key_tile apart, and take whole groups of four. The first `ahead` keys have a successor
// one tile further on.
template <class Level, class T>
void dot_rows(const float* q, index q_stride, index rows, const T* k, index k_stride, index keys, index ahead,
              index dim, float* s) {
  constexpr int most = std::is_base_of_v<isa::avx512, Level> ? 4 : 2;  // accumulators: 16 of 32, 8 of 16 registers
  for (index j = 0; j < keys; j += 4) {
    const T* key = k + j * k_stride;
    for (index i = 0; i < 4 && j + i < ahead; ++i)
      simd::prefetch_row(key + (i + key_tile) * k_stride, dim * static_cast<index>(sizeof(T)));
    index r = 0;
    for (; r + most <= rows; r += most)
      dot_block<Level, T, most>(q + r * q_stride, q_stride, key, k_stride, keys - j, dim, s + r * key_tile + j);
    for (; r < rows; ++r)
      dot_block<Level, T, 1>(q + r * q_stride, q_stride, key, k_stride, keys - j, dim, s + r * key_tile + j);
  }
}

}  // namespace inlay::cpu
