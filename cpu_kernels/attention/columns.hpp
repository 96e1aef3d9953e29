// q K^T summed dim after dim. With many rows that is what is fast; few rows that do it, too, get the same bits, so a
// chunk of a prompt gives what the whole prompt gives, however few its queries are.
//
//   more rows     pack_columns: a chunk of keys is transposed into scratch, and multiply() takes the rows through it
//   few           dot_columns: a square of keys and dims is transposed in registers, where each element of q meets it
//
//   k0d0 k0d1 k0d2 ..         k0d0 k1d0 k2d0 ..
//   k1d0 k1d1 k1d2 ..   ->    k0d1 k1d1 k2d1 ..
//
// Keys come in lane_pad: row[] repeats its last entry up to there, and results have room.
//
// Zen 5, one thread, 4096 keys of 8 heads of 128 in f16, rows of a kv head: scratch -> registers 8 rows 1583 -> 1142
// us, 12 1867 -> 1715, 16 2328 -> 2058, 24 2733 -> 2779, 32 3501 -> 3522. Summed over lanes (qk_rows) 4 rows take 670
// instead of 826, 7 rows take as long.
#pragma once

#include "cpu_kernels/attention/rows.hpp"
#include "cpu_kernels/simd/transpose.hpp"

namespace inlay::cpu {

// Dims d .. d + n of as many keys as a register has lanes, from key `first` on: register i holds dim d + i.
template <class Level, class T>
INLAY_INLINE void load_square(const CacheRows<T>& keys, index first, index d, index n,
                              simd::Floats<Level> (&square)[simd::Floats<Level>::size]) {
  using F = simd::Floats<Level>;
  const T* const from = keys.cache + d;
  const index* const row = keys.row + first;
  if (n >= F::size) {
    INLAY_UNROLL
    for (int i = 0; i < F::size; ++i) square[i] = F::load(from + row[i]);
  } else {
    INLAY_UNROLL
    for (int i = 0; i < F::size; ++i) square[i] = F::load(from + row[i], n);
  }
  simd::transpose<Level>(square);
}

// columns[d * key_tile + j] = dim d of key j
template <class Level, class T>
void pack_columns(const CacheRows<T>& keys, index dim, float* columns, RowPrefetch ahead) {
  using F = simd::Floats<Level>;
  for (index j = 0; j < keys.count; j += F::size) {
    ahead.ask(F::size);
    for (index d = 0; d < dim; d += F::size) {
      F square[F::size];
      load_square<Level>(keys, j, d, dim - d, square);
      INLAY_UNROLL
      for (int i = 0; i < F::size; ++i) square[i].store(columns + (d + i) * key_tile + j);
    }
  }
}

// Squares taken together, by the rows that share them: chains of fma, in 25 registers of 32. Eight rows in one square
// instead of twice four in two: 1368 -> 1142 us.
template <int Rows> inline constexpr int column_squares = Rows <= 4 ? 2 : 1;

template <class Level, class T, int Rows, int Squares>
INLAY_INLINE void dot_squares(Strided<const float> q, const CacheRows<T>& keys, index first, index dim,
                              Strided<float> s, RowPrefetch& ahead) {
  using F = simd::Floats<Level>;
  constexpr index width = Squares * F::size;
  const index share = (width * F::size + dim - 1) / dim;  // a step's, of the rows ahead
  index asked = 0;
  simd::RegisterTile<Level, Rows, Squares> tile;
  for (index d = 0; d < dim; d += F::size) {
    const index some = min(share, width - asked);
    ahead.ask(some);
    asked += some;
    const index n = min(dim - d, F::size);
    INLAY_UNROLL
    for (int g = 0; g < Squares; ++g) {
      F square[F::size];
      load_square<Level>(keys, first + g * F::size, d, n, square);
      // A fold over lambdas in place of this loop costs g++ 10% with four queries.
      INLAY_UNROLL
      for (int i = 0; i < F::size; ++i) {
        if (i >= n) break;
        tile.add_column(
            g, [&](int r) INLAY_INLINE_LAMBDA { return F(q.at[r * q.stride + d + i]); }, square[i]);
      }
    }
  }
  tile.each([&](int r, int g, F sum) INLAY_INLINE_LAMBDA { sum.store(s.at + r * s.stride + first + g * F::size); });
}

template <class Level, class T, int Rows>
void dot_columns_of(Strided<const float> q, const CacheRows<T>& keys, index dim, Strided<float> s, RowPrefetch ahead) {
  constexpr int squares = column_squares<Rows>;
  constexpr index lanes = simd::Floats<Level>::size, width = squares * lanes;
  index j = 0;
  for (; j + width <= keys.count; j += width) dot_squares<Level, T, Rows, squares>(q, keys, j, dim, s, ahead);
  for (; j < keys.count; j += lanes) dot_squares<Level, T, Rows, 1>(q, keys, j, dim, s, ahead);
}

template <class Level, class T>
void dot_columns(Strided<const float> q, index rows, const CacheRows<T>& keys, index dim, Strided<float> s,
                 RowPrefetch ahead) {
  constexpr int most = column_rows;
  for (index r = 0; r < rows; r += most, ahead = {})
    simd::with_count<most>(min(rows - r, most), [&](auto some) INLAY_INLINE_LAMBDA {
      dot_columns_of<Level, T, some>(q.from(r), keys, dim, s.from(r), ahead);
    });
}

}  // namespace inlay::cpu
