// The product of attention with many queries, over tiles of f32 in scratch: p V, and q K^T over keys
// packed as columns.
//
//   c[rows][cols] = c * factor + a[rows][depth] b[depth][cols]
//
// Each element is summed in one fixed order, whatever rows share its register tile.
#pragma once

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/simd/register_tile.hpp"

namespace inlay::cpu {

// Registers of b beside each other: tiles of 6 x 4, or of 6 x 2 where there are 16 registers.
template <class Level> inline constexpr int multiply_vectors = simd::registers<Level> == 32 ? 4 : 2;

template <class Level, int Rows, int Vectors>
void multiply_block(Strided<const float> a, Strided<const float> b, index depth, Strided<float> c,
                    const float* factor) {
  using F = simd::Floats<Level>;
  const auto at = [&](int r, int v) INLAY_INLINE_LAMBDA { return c.at + r * c.stride + v * F::size; };
  simd::RegisterTile<Level, Rows, Vectors> tile(
      [&](int r, int v) INLAY_INLINE_LAMBDA { return factor != nullptr ? F::load(at(r, v)) * F(factor[r]) : F(); });
  for (index k = 0; k < depth; ++k) {
    simd::Register<Level> row[Vectors];
    INLAY_UNROLL
    for (int v = 0; v < Vectors; ++v) row[v] = F::load(b.at + k * b.stride + v * F::size).v;
    tile.add([&](int r) INLAY_INLINE_LAMBDA { return F(a.at[r * a.stride + k]); }, row);
  }
  tile.each([&](int r, int v, F sum) INLAY_INLINE_LAMBDA { sum.store(at(r, v)); });
}

template <class Level, int Vectors>
void multiply_strip(Strided<const float> a, index rows, Strided<const float> b, index depth, Strided<float> c,
                    const float* factor) {
  constexpr int full = simd::tile_rows<Level>(multiply_vectors<Level>);
  for (index r = 0; r < rows; r += full)
    simd::with_count<full>(min(rows - r, full), [&](auto some) INLAY_INLINE_LAMBDA {
      multiply_block<Level, some, Vectors>(a.from(r), b, depth, c.from(r), factor != nullptr ? factor + r : nullptr);
    });
}

// `cols` is a multiple of lane_pad. A strip of b stays in L1 while the rows pass over it.
template <class Level>
void multiply(Strided<const float> a, index rows, Strided<const float> b, index cols, index depth, Strided<float> c,
              const float* factor) {
  constexpr index lanes = simd::Floats<Level>::size;
  constexpr int widest = multiply_vectors<Level>;
  index done = 0;
  for (; done + widest * lanes <= cols; done += widest * lanes)
    multiply_strip<Level, widest>(a, rows, b.from(0, done), depth, c.from(0, done), factor);
  if constexpr (widest * lanes > lane_pad)
    for (; done < cols; done += lane_pad)
      multiply_strip<Level, lane_pad / lanes>(a, rows, b.from(0, done), depth, c.from(0, done), factor);
}

// Is every element of `count` floats finite? x * 0 is 0 for finite x and NaN otherwise.
template <class Level> bool all_finite(const float* x, index count) {
  using F = simd::Floats<Level>;
  F sum;
  for (index i = 0; i < count; i += F::size) sum = fma(F::load(x + i), F(0.0f), sum);
  return reduce_sum(sum) == 0;
}

// o = o * factor + p V over rows of V in scratch, as wide as those of o; no factor: o = p V. `mixed`: a mask covers a
// key for some rows only. Where its V is not finite, the rows that do not see it must not meet it: 0 * NaN would be
// NaN. sees(row, key) tells them apart.
template <class Level, class Sees>
void tile_values(Strided<const float> p, index rows, const float* v, index keys, bool mixed, Strided<float> o,
                 const float* factor, Sees&& sees) {
  using F = simd::Floats<Level>;
  const index pad = o.stride;
  if (!mixed || all_finite<Level>(v, keys * pad)) return multiply<Level>(p, rows, {v, pad}, pad, keys, o, factor);
  for (index r = 0; r < rows; ++r) {
    float* const y = o.at + r * pad;
    for (index d = 0; d < pad; d += F::size) (factor ? F::load(y + d) * F(factor[r]) : F()).store(y + d);
    for (index j = 0; j < keys; ++j) {
      const float weight = p.at[r * p.stride + j];
      if (weight == 0 && !sees(r, j)) continue;
      for (index d = 0; d < pad; d += F::size) fma(F(weight), F::load(v + j * pad + d), F::load(y + d)).store(y + d);
    }
  }
}

}  // namespace inlay::cpu
