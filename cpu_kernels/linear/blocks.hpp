// Operands of the register tile, block of k by block of k: x packed for the tiles of a chunk of rows,
// and the slice of a packed panel, taken where it lies or widened into scratch that stays in the L1 cache.
#pragma once

#include "cpu_kernels/linear/tile.hpp"
#include "cpu_kernels/simd/pairs.hpp"
#include "cpu_kernels/simd/transpose.hpp"
#include "cpu_kernels/simd/unroll.hpp"
#include "cpu_kernels/support/dtypes.hpp"

namespace inlay::cpu {

inline constexpr index even(index k) { return (k + 1) / 2 * 2; }

// Rows of a tile, one block of k, as the tile reads them: for each k the rows side by side.
// load(row, k, n): n lanes of a row from k on. Lanes beyond `rows` are not stored.
template <class Level, class Load> INLAY_INLINE void packed_rows(index rows, index count, float* out, Load&& load) {
  using F = simd::Floats<Level>;
  for (index k = 0; k < count; k += F::size) {
    const index lanes = count - k < F::size ? count - k : F::size;
    if (rows == 1) {
      load(0, k, lanes).store(out + k, lanes);
    } else if constexpr (F::size == 1) {
      for (index r = 0; r < rows; ++r) load(r, k, lanes).store(out + k * rows + r);
    } else {
      constexpr bool one_square = max_tile_rows<Level> <= F::size;
      for (index first = 0; one_square ? first == 0 : first < rows; first += F::size) {
        const index here = one_square || rows - first < F::size ? rows - first : F::size;
        F row[F::size];
        INLAY_UNROLL
        for (index r = 0; r < F::size; ++r)
          if (r < here) row[r] = load(first + r, k, lanes);
        transpose(row);
        INLAY_UNROLL
        for (index i = 0; i < F::size; ++i)
          if (i < lanes) row[i].store(out + (k + i) * rows + first, here);
      }
    }
  }
}

// An odd last k of a bf16 weight meets a zero: `count` is even then and x ends before it, at `there`.
template <class Level, class T>
void pack_x(const T* x, index row_stride, index rows, index there, index count, float* out) {
  using F = simd::Floats<Level>;
  packed_rows<Level>(rows, count, out, [&](index r, index k, index lanes) {
    const index some = there - k < lanes ? there - k : lanes;
    return some == F::size ? F::load(x + r * row_stride + k) : F::load(x + r * row_stride + k, some);
  });
}

// The same in pairs of bf16, which move as one lane, for the dot product.
template <class Level>
void pack_x_pairs(const bf16* x, index row_stride, index rows, index there, index count, std::uint32_t* out) {
  using F = simd::Floats<Level>;
  using Pairs = simd::Bf16Pairs<Level>;
  packed_rows<Level>(rows, count / 2, reinterpret_cast<float*>(out), [&](index r, index k, index lanes) {
    const index some = there - 2 * k < 2 * lanes ? there - 2 * k : 2 * lanes;
    const bf16* const row = x + r * row_stride + 2 * k;
    return some == 2 * F::size ? Pairs::load(row).bits() : Pairs::load(row, some).bits();
  });
}

// Where the weight lies: `stride` is that of a panel or of a row, in elements.
struct WeightSource {
  const void* data;
  index n, k, stride;
};

// slice(source, panel, begin, count, scratch): the panel's weights for k in begin .. begin + count.
template <class Kind>
using SliceOf = const typename PanelOf<Kind>::Element* (*)(const WeightSource& source, index panel, index begin,
                                                           index count, typename PanelOf<Kind>::Element* scratch);

template <class Level, class Kind>
auto packed_slice(const WeightSource& source, index panel, index begin, index, typename PanelOf<Kind>::Element*)
    -> const typename PanelOf<Kind>::Element* {
  return static_cast<const typename PanelOf<Kind>::Element*>(source.data) + panel * source.stride +
         begin * linear_panel;
}

// Where widening in the registers of every tile costs more than once here.
template <class Level, class W>
const float* widened_slice(const WeightSource& source, index panel, index begin, index count, float* scratch) {
  using F = simd::Floats<Level>;
  const W* w = static_cast<const W*>(source.data) + panel * source.stride + begin * linear_panel;
  if constexpr (std::is_same_v<W, bf16>) {
    for (index k = 0; k < count; k += 2)
      for (index part = 0; part < linear_panel; part += F::size) {
        const auto pairs = simd::Bf16Pairs<Level>::load(w + k * linear_panel + part * 2);
        pairs.even().store(scratch + k * linear_panel + part);
        pairs.odd().store(scratch + (k + 1) * linear_panel + part);
      }
  } else {
    for (index i = 0; i < count * linear_panel; i += F::size) F::load(w + i).store(scratch + i);
  }
  return scratch;
}

}  // namespace inlay::cpu
