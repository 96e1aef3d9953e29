// The two products of attention, straight from the cache: K and V are widened in registers and read
// by all heads of a group at once.
//
//   dot_rows     s[h][r] = sum_i a[h][i] * b[r][i]          q . K over dims;  p . V over slots where V is slot-minor
//   weigh_rows   o[h][d] = factor[h] * o[h][d] + sum_t p[h][t] * v[t][d]      where a token's dims lie side by side
//
// A row may lie in pieces (vLLM's layouts): piece j of row r begins at b + row[r] + piece.at[j].
// Each result is summed in one fixed order, whatever heads share its register tile.
#pragma once

#include <type_traits>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/sum_rows.hpp"

namespace inlay::cpu::paged {

struct Pieces {
  const index* at;
  const index* length;
  index count;
};

// Heads that share a register tile: heads x 4 rows of sums, 4 rows of b, one of a: 21 of 32, 13 of 16.
template <class Level> inline constexpr int head_tile = std::is_base_of_v<isa::avx512, Level> ? 4 : 2;

// Rows come in fours, which is what one reduction takes; one head alone needs eight chains of fma.
inline constexpr index row_tile = 8;

template <class Level, class T, int Heads, int Rows>
INLAY_INLINE void dot_block(const float* a, index a_stride, const T* b, const index* row, const Pieces& pieces,
                            float* s, index s_stride) {
  using F = simd::Floats<Level>;
  F sum[Heads][Rows];
  for (index j = 0; j < pieces.count; ++j) {
    const T* const first = b + pieces.at[j];
    const index length = pieces.length[j];
    const auto step = [&](auto load_a, auto load_b) {
      F x[Rows];
      INLAY_UNROLL
      for (int r = 0; r < Rows; ++r) x[r] = load_b(first + row[r]);
      INLAY_UNROLL
      for (int h = 0; h < Heads; ++h) {
        const F y = load_a(a + h * a_stride);
        INLAY_UNROLL
        for (int r = 0; r < Rows; ++r) sum[h][r] = fma(x[r], y, sum[h][r]);
      }
    };
    index i = 0;
    for (; i + F::size <= length; i += F::size)
      step([i](const float* p) { return F::load(p + i); }, [i](const T* p) { return F::load(p + i); });
    if (const index n = length - i; n > 0)
      step([i, n](const float* p) { return F::load(p + i, n); }, [i, n](const T* p) { return F::load(p + i, n); });
    a += length;
  }
  if constexpr (Heads == 4 && Rows == 4)
    simd::store_row_sums<Level>(sum, s, s_stride);
  else
    simd::store_row_sums<Level, Heads, Rows>(sum, s, s_stride);
}

// row[] has `row_tile` valid entries; results likewise.
template <class Level, class T, int Heads>
void dot_heads(const float* a, index a_stride, index heads, const T* b, const index* row, const Pieces& pieces,
               float* s, index s_stride) {
  for (; heads >= Heads; heads -= Heads, a += Heads * a_stride, s += Heads * s_stride) {
    if constexpr (Heads == 1) {
      dot_block<Level, T, 1, 8>(a, a_stride, b, row, pieces, s, s_stride);
    } else {
      dot_block<Level, T, Heads, 4>(a, a_stride, b, row, pieces, s, s_stride);
      dot_block<Level, T, Heads, 4>(a, a_stride, b, row + 4, pieces, s + 4, s_stride);
    }
  }
  if constexpr (Heads > 1)
    if (heads > 0) dot_heads<Level, T, Heads - 1>(a, a_stride, heads, b, row, pieces, s, s_stride);
}

// `rows` is rounded up to row_tile: row[] repeats its last entry, s has room. before(r) runs ahead of
// each tile of rows: prefetches go there.
template <class Level, class T, class Before>
void dot_rows(const float* a, index a_stride, index heads, const T* b, const index* row, index rows,
              const Pieces& pieces, float* s, index s_stride, Before&& before) {
  for (index r = 0; r < rows; r += row_tile) {
    before(r);
    dot_heads<Level, T, head_tile<Level>>(a, a_stride, heads, b, row + r, pieces, s + r, s_stride);
  }
}

// heads x vectors accumulators and as many registers of v as vectors: 21 of 32, 11 of 16.
template <class Level> inline constexpr int vector_tile = std::is_base_of_v<isa::scalar, Level> ? 1 : 4;

template <class Level, class T, int Heads, int Vectors, bool Partial>
INLAY_INLINE void weigh_block(const float* p, index p_stride, const T* v, const index* row, index rows, index lanes,
                              float* o, index o_stride, const float* factor) {
  using F = simd::Floats<Level>;
  F sum[Heads][Vectors];
  INLAY_UNROLL
  for (int h = 0; h < Heads; ++h) INLAY_UNROLL
  for (int k = 0; k < Vectors; ++k) sum[h][k] = F::load(o + h * o_stride + k * F::size) * F(factor[h]);
  for (index t = 0; t < rows; ++t) {
    F x[Vectors];
    INLAY_UNROLL
    for (int k = 0; k < Vectors; ++k) {
      if constexpr (Partial)
        x[k] = F::load(v + row[t] + k * F::size, lanes);
      else
        x[k] = F::load(v + row[t] + k * F::size);
    }
    INLAY_UNROLL
    for (int h = 0; h < Heads; ++h) {
      const F w(p[h * p_stride + t]);
      INLAY_UNROLL
      for (int k = 0; k < Vectors; ++k) sum[h][k] = fma(w, x[k], sum[h][k]);
    }
  }
  INLAY_UNROLL
  for (int h = 0; h < Heads; ++h) INLAY_UNROLL
  for (int k = 0; k < Vectors; ++k) sum[h][k].store(o + h * o_stride + k * F::size);
}

template <class Level, class T, int Heads>
void weigh_heads(const float* p, index p_stride, index heads, const T* v, const index* row, index rows, index dim,
                 float* o, index o_stride, const float* factor) {
  using F = simd::Floats<Level>;
  constexpr int vectors = vector_tile<Level>;
  for (; heads >= Heads; heads -= Heads, p += Heads * p_stride, o += Heads * o_stride, factor += Heads) {
    index d = 0;
    for (; d + vectors * F::size <= dim; d += vectors * F::size)
      weigh_block<Level, T, Heads, vectors, false>(p, p_stride, v + d, row, rows, 0, o + d, o_stride, factor);
    for (; d + F::size <= dim; d += F::size)
      weigh_block<Level, T, Heads, 1, false>(p, p_stride, v + d, row, rows, 0, o + d, o_stride, factor);
    if (d < dim) weigh_block<Level, T, Heads, 1, true>(p, p_stride, v + d, row, rows, dim - d, o + d, o_stride, factor);
  }
  if constexpr (Heads > 1)
    if (heads > 0) weigh_heads<Level, T, Heads - 1>(p, p_stride, heads, v, row, rows, dim, o, o_stride, factor);
}

// o's rows are padded to whole registers.
template <class Level, class T>
void weigh_rows(const float* p, index p_stride, index heads, const T* v, const index* row, index rows, index dim,
                float* o, index o_stride, const float* factor) {
  weigh_heads<Level, T, head_tile<Level>>(p, p_stride, heads, v, row, rows, dim, o, o_stride, factor);
}

}  // namespace inlay::cpu::paged
