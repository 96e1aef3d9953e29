// The product of attention with many queries, over tiles in scratch: p V, and q K^T over keys packed as columns.
//
//   c[rows][cols] = c * factor + a[rows][depth] b[depth][cols]
//   c[rows][cols] = finish(a[rows][depth] b[depth][cols])
//
// a and b are floats, or pairs of bf16 (attention/bf16.hpp).
// Each element is summed in one fixed order, whatever rows share its register tile.
#pragma once

#include "cpu_kernels/attention/pack.hpp"
#include "cpu_kernels/simd/register_tile.hpp"

namespace inlay::cpu {

using Bf16Pair = std::uint32_t;  // two bf16 of one lane, the first in the lower half

// Registers of b beside each other: tiles of 6 x 4, or of 6 x 2 where there are 16 registers.
template <class Level> inline constexpr int multiply_vectors = simd::registers<Level> == 32 ? 4 : 2;

// What a step of depth takes of a and b: a float of each, or two bf16 side by side.
template <class Level, class T> struct Factors {
  static INLAY_INLINE simd::Register<Level> of_b(const float* b) { return simd::Floats<Level>::load(b).v; }
  static INLAY_INLINE simd::Floats<Level> of_a(float a) { return simd::Floats<Level>(a); }
};
template <class Level> struct Factors<Level, Bf16Pair> {
  using Pairs = simd::Bf16Pairs<Level>;
  static INLAY_INLINE Pairs of_b(const Bf16Pair* b) { return Pairs::load(reinterpret_cast<const bf16*>(b)); }
  static INLAY_INLINE Pairs of_a(Bf16Pair a) { return Pairs::broadcast(a); }
};

template <class Level, int Rows, int Vectors, class T, class Finish>
void multiply_block(Strided<const T> a, Strided<const T> b, index depth, Strided<float> c, const float* factor,
                    Finish finish) {
  using F = simd::Floats<Level>;
  using From = Factors<Level, T>;
  const auto at = [&](int r, int v) INLAY_INLINE_LAMBDA { return c.at + r * c.stride + v * F::size; };
  simd::RegisterTile<Level, Rows, Vectors> tile(
      [&](int r, int v) INLAY_INLINE_LAMBDA { return factor != nullptr ? F::load(at(r, v)) * F(factor[r]) : F(); });
  for (index k = 0; k < depth; ++k) {
    decltype(From::of_b(b.at)) row[Vectors];
    INLAY_UNROLL
    for (int v = 0; v < Vectors; ++v) row[v] = From::of_b(b.at + k * b.stride + v * F::size);
    tile.add([&](int r) INLAY_INLINE_LAMBDA { return From::of_a(a.at[r * a.stride + k]); }, row);
  }
  tile.each([&](int r, int v, F sum) INLAY_INLINE_LAMBDA { finish(sum).store(at(r, v)); });
}

template <class Level, int Vectors, class T, class Finish>
void multiply_strip(Strided<const T> a, index rows, Strided<const T> b, index depth, Strided<float> c,
                    const float* factor, Finish finish) {
  constexpr int full = simd::tile_rows<Level>(multiply_vectors<Level>);
  for (index r = 0; r < rows; r += full)
    simd::with_count<full>(min(rows - r, full), [&](auto some) INLAY_INLINE_LAMBDA {
      multiply_block<Level, some, Vectors>(a.from(r), b, depth, c.from(r), factor != nullptr ? factor + r : nullptr,
                                           finish);
    });
}

// `cols` is a multiple of lane_pad. A strip of b stays in L1 while the rows pass over it.
template <class Level, class T, class Finish = AsItIs>
void multiply(Strided<const T> a, index rows, Strided<const T> b, index cols, index depth, Strided<float> c,
              const float* factor, Finish finish = {}) {
  constexpr index lanes = simd::Floats<Level>::size;
  constexpr int widest = multiply_vectors<Level>;
  index done = 0;
  for (; done + widest * lanes <= cols; done += widest * lanes)
    multiply_strip<Level, widest>(a, rows, b.from(0, done), depth, c.from(0, done), factor, finish);
  if constexpr (widest * lanes > lane_pad)
    for (; done < cols; done += lane_pad)
      multiply_strip<Level, lane_pad / lanes>(a, rows, b.from(0, done), depth, c.from(0, done), factor, finish);
}

// Is every element of `count` floats finite? x * 0 is 0 for finite x and NaN otherwise.
template <class Level> bool all_finite(const float* x, index count) {
  using F = simd::Floats<Level>;
  F sum;
  for (index i = 0; i < count; i += F::size) sum = fma(F::load(x + i), F(0.0f), sum);
  return reduce_sum(sum) == 0;
}

// o = o * factor + p V where V is not finite and a mask covers a key for some rows only: those that do not see it must
// not meet it, since 0 * NaN would be NaN. sees(row, key) tells them apart.
template <class Level, class Sees>
void visible_values(Strided<const float> p, index rows, const float* v, index keys, Strided<float> o,
                    const float* factor, Sees&& sees) {
  using F = simd::Floats<Level>;
  const index pad = o.stride;
  for (index r = 0; r < rows; ++r) {
    float* const y = o.at + r * pad;
    for (index d = 0; d < pad; d += F::size) (F::load(y + d) * F(factor[r])).store(y + d);
    for (index j = 0; j < keys; ++j) {
      const float weight = p.at[r * p.stride + j];
      if (weight == 0 && !sees(r, j)) continue;
      for (index d = 0; d < pad; d += F::size) fma(F(weight), F::load(v + j * pad + d), F::load(y + d)).store(y + d);
    }
  }
}

}  // namespace inlay::cpu
