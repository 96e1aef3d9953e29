// qk_rows (attention/rows.hpp) where there are 32 registers of sixteen lanes: four rows of b lie side by side in a
// register, and up to eight rows of a pass over eight of b.
//
//   s[h][r] = sum_i a[h][i] * b[r][i]         a comes spread (simd/four_rows.hpp), b in chunks of sixteen bytes
//
// For 7 heads of 64 dims 8 rows of b take 224 fma. Each sum over all sixteen lanes of a register took 3 shuffles and
// adds; four lanes of it take less than one. They wait in memory and go between the next rows' fma: at once behind
// their own they fill the scheduler, and the next rows wait behind them (35.0 instead of 31.4).
//
// Zen 4, one thread, f16 in L2, in fma of a register for a row of b, rows of a x dims; before: sums over all lanes, up
// to four rows of a:
//
//             4 x 64   4 x 128   5 x 64   6 x 64   7 x 64   7 x 128   8 x 64   8 x 128
//   fma           16        32       20       24       28        56       32        64
//   before      23.4      39.4     32.0     36.0     42.5      71.8     46.0      78.5
//   now         19.7      37.7     23.3     27.5     31.4      59.2     35.6      67.0
#pragma once

#include "cpu_kernels/attention/rows.hpp"
#include "cpu_kernels/simd/four_rows.hpp"

namespace inlay::cpu {

template <class T> inline constexpr index chunk_of = 16 / static_cast<index>(sizeof(T));  // elements

// Element 0 of a row's chunk c, counted from the row.
struct EvenChunks {
  index count, step;
  INLAY_INLINE index operator[](index c) const { return c * step; }
};
struct ListedChunks {
  index count;
  const index* at;
  INLAY_INLINE index operator[](index c) const { return at[c]; }
};

// a [rows][stride] -> [tiles][n / 4][rows of the tile][16]: dot_x4 reads it from the first to the last.
template <class Level> void interleave_x4(Strided<const float> a, index rows, index n, float* y) {
  each_tile(rows, max_x4_rows, [&](index r, index end) {
    for (index d = 0; d < n; d += 4)
      for (index row = r; row < end; ++row, y += 16) simd::spread_four<Level>(a.at + row * a.stride + d, y);
  });
}

template <class Level, class T, int Heads, class Chunks>
void dot_x4_of(const float* a, const CacheRows<T>& b, const Chunks& chunks, Strided<float> s, RowPrefetch ahead) {
  using F = simd::Floats<Level>;
  using Four = simd::FourRows<Level, T>;
  constexpr int quads = row_tile / 4, sums = Heads * quads, folds = (sums + 3) / 4;
  alignas(64) float waiting[4 * folds][F::size] = {};
  float* to = s.at;
  const auto fold = [&](auto i) INLAY_INLINE_LAMBDA {
    constexpr int first = 4 * i, count = sums - first < 4 ? sums - first : 4;
    simd::store_quarters<Level, count>(waiting[first], [&](int k) INLAY_INLINE_LAMBDA {
      return to + (first + k) / quads * s.stride + (first + k) % quads * 4;
    });
  };
  // Steps for each row that is asked for: of the next tile no more than there are in this one.
  const index every = groups_of(chunks.count, row_tile);
  for (index r = 0; r < b.count; r += row_tile) {
    const T* row[row_tile];
    INLAY_UNROLL
    for (int k = 0; k < row_tile; ++k) row[k] = b.cache + b.row[r + k];
    simd::RegisterTile<Level, Heads, quads> tile;
    const float* from = simd::opaque(a);
    index asked = 0, wait = every;
    const auto step = [&](index c) INLAY_INLINE_LAMBDA {
      if (--wait == 0) {
        ahead.ask(1);
        ++asked;
        wait = every;
      }
      const index at = chunks[c];
      simd::Register<Level> x[Four::registers][quads];
      INLAY_UNROLL
      for (int q = 0; q < quads; ++q) {
        const T* const* const four = row + 4 * q;
        simd::Register<Level> y[Four::registers];
        Four::load(four[0] + at, four[1] + at, four[2] + at, four[3] + at, y);
        INLAY_UNROLL
        for (int i = 0; i < Four::registers; ++i) x[i][q] = y[i];
      }
      INLAY_UNROLL
      for (int i = 0; i < Four::registers; ++i) {
        const auto value = [&](int h) INLAY_INLINE_LAMBDA { return simd::opaque(F::load(from + h * F::size)); };
        tile.add(value, x[i]);
        from += Heads * F::size;
      }
      from = simd::opaque(from);
    };
    simd::unroll<folds>([&](auto i) INLAY_INLINE_LAMBDA {
      if (i < chunks.count) step(i);
      fold(i);
    });
    for (index c = folds; c < chunks.count; ++c) step(c);
    ahead.ask(row_tile - asked);
    tile.each([&](int h, int q, F sum) INLAY_INLINE_LAMBDA { sum.store(waiting[h * quads + q]); });
    to = s.at + r;
  }
  simd::unroll<folds>(fold);
}

// b.count is rounded up to row_tile, as in qk_rows.
template <class Level, class T, class Chunks>
void dot_x4(const float* a, index rows, const CacheRows<T>& b, const Chunks& chunks, Strided<float> s,
            RowPrefetch ahead) {
  const index of_row = 4 * padded(chunks.count * chunk_of<T>);
  each_tile(rows, max_x4_rows, [&](index r, index end) INLAY_INLINE_LAMBDA {
    simd::with_count<max_x4_rows>(end - r, [&](auto some) INLAY_INLINE_LAMBDA {
      dot_x4_of<Level, T, some>(a + r * of_row, b, chunks, s.from(r), ahead);
    });
    ahead = {};
  });
}

}  // namespace inlay::cpu
