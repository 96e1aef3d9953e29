// Operands of the register tile, block of k by block of k: x packed for the tiles of a chunk of rows,
// and the slice of a packed panel, taken where it lies or widened into scratch that stays in the L1 cache.
#pragma once

#include "cpu_kernels/linear/tile.hpp"
#include "cpu_kernels/simd/pairs.hpp"
#include "cpu_kernels/simd/transpose.hpp"
#include "cpu_kernels/simd/unroll.hpp"
#include "cpu_kernels/support/dtypes.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

inline constexpr index even(index k) { return (k + 1) / 2 * 2; }

// Rows of a tile, one block of k, as the tile reads them: for each k the rows side by side.
// load(row, k, n): n lanes of a row from k on. Lanes beyond `rows` are not stored.
template <class Level, class Load> INLAY_INLINE void packed_rows(index rows, index count, float* out, Load&& load) {
  using F = simd::Floats<Level>;
  for (index k = 0; k < count; k += F::size) {
    const index lanes = min(count - k, F::size);
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
    const index some = min(there - k, lanes);
    return some == F::size ? F::load(x + r * row_stride + k) : F::load(x + r * row_stride + k, some);
  });
}

// The first n elements of two registers, rounded to bf16 where they are not; the rest zero.
template <class Level, class T> INLAY_INLINE simd::Bf16Pairs<Level> load_bf16(const T* x, index n) {
  using F = simd::Floats<Level>;
  if constexpr (std::is_same_v<T, bf16>)
    return n == 2 * F::size ? simd::Bf16Pairs<Level>::load(x) : simd::Bf16Pairs<Level>::load(x, n);
  else if (n == 2 * F::size)
    return to_bf16(F::load(x), F::load(x + F::size));
  else
    return n <= F::size ? to_bf16(F::load(x, n), F()) : to_bf16(F::load(x), F::load(x + F::size, n - F::size));
}

// The same in pairs of bf16, which move as one lane, for the dot product.
template <class Level, class T>
void pack_x_pairs(const T* x, index row_stride, index rows, index there, index count, std::uint32_t* out) {
  packed_rows<Level>(rows, count / 2, reinterpret_cast<float*>(out), [&](index r, index k, index lanes) {
    const index some = min(there - 2 * k, 2 * lanes);
    return load_bf16<Level>(x + r * row_stride + 2 * k, some).bits();
  });
}

// Values that lie in L1, rounded to bf16 where they lie: for levels without the dot product.
template <class Level> void round_to_bf16(float* values, index count) {
  using F = simd::Floats<Level>;
  index i = 0;
  for (; i + F::size <= count; i += F::size) as_bf16(F::load(values + i)).store(values + i);
  if (i < count) as_bf16(F::load(values + i, count - i)).store(values + i, count - i);
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

// What `slice` writes, rounded to bf16.
template <class Level, SliceOf<float> slice>
const float* rounded_slice(const WeightSource& source, index panel, index begin, index count, float* scratch) {
  slice(source, panel, begin, count, scratch);
  round_to_bf16<Level>(scratch, count * linear_panel);
  return scratch;
}

// Steps for the dot product of a weight that is no bf16. `count` is even: an odd last k meets a zero.
template <class Level, class W>
const bf16* bf16_slice(const WeightSource& source, index panel, index begin, index count, bf16* scratch) {
  using F = simd::Floats<Level>;
  const W* const w = static_cast<const W*>(source.data) + panel * source.stride + begin * linear_panel;
  const auto store = [&](index k, simd::Bf16Pairs<Level> step) {
    step.bits().store(reinterpret_cast<float*>(scratch + k * linear_panel));
  };
  const index pairs = source.k - begin < count ? count - 2 : count;
  for (index k = 0; k < pairs; k += 2) store(k, bf16_step<Level>(w + k * linear_panel));
  if (pairs < count) store(pairs, to_bf16_pairs(F::load(w + pairs * linear_panel), F()));
  return scratch;
}

}  // namespace inlay::cpu
