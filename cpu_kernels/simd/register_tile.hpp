// RegisterTile<Level, R, C>: the sums that a product holds from its first step to its last, R rows of C registers.
//
//           b[0] b[1] ..                      what they stay in registers with, of 32 (AVX-512, NEON) or 16 (AVX2):
//   x(0)     +    +                             R * C sums, C of b and one broadcast, where rows come one by one: add
//   x(1)     +    +                             R * C sums, R of x and one of b, where columns do: add_column
//   ..
//
//   RegisterTile(), RegisterTile(start)       zeros; start(r, c)
//   add(x, b)                                 sum[r][c] += x(r) * b[c]
//   add_column(c, x, b)                       sum[r][c] += x(r) * b
//   each(emit)                                emit(r, c, sum)
//
// registers<Level> has the machine, and tile_rows<Level>(C) are the rows that fill them: they go by the level and not
// by the width of a vector, since NEON has 4 lanes and as many registers as AVX-512.
//
// A product is an fma; of pairs of bf16 it is their dot product. A sum is one chain, in the order of the calls: its
// bits are the same in a tile of any size.
#pragma once

#include "cpu_kernels/simd/dot_bf16.hpp"
#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level>
inline constexpr int registers = std::is_base_of_v<isa::avx512, Level> || std::is_base_of_v<isa::neon, Level> ? 32 : 16;
template <class Level> constexpr int tile_rows(int columns) { return (registers<Level> - columns - 1) / columns; }

// Bare registers: GCC 12 runs the constructors of an array of Floats in a loop over memory.
template <class Level, int R, int C> struct RegisterTile {
  using F = Floats<Level>;
  Register<Level> sum[R][C];

  INLAY_INLINE RegisterTile() : RegisterTile([](int, int) INLAY_INLINE_LAMBDA { return F(); }) {}
  template <class Start> INLAY_INLINE explicit RegisterTile(Start&& start) {
    INLAY_UNROLL
    for (int r = 0; r < R; ++r) INLAY_UNROLL
    for (int c = 0; c < C; ++c) sum[r][c] = start(r, c).v;
  }

  template <class X> INLAY_INLINE void add(X&& x, const Register<Level> (&b)[C]) {
    INLAY_UNROLL
    for (int r = 0; r < R; ++r) {
      const F a = x(r);
      INLAY_UNROLL
      for (int c = 0; c < C; ++c) sum[r][c] = fma(a, F(b[c]), F(sum[r][c])).v;
    }
  }
  template <class X> INLAY_INLINE void add(X&& x, const Bf16Pairs<Level> (&b)[C]) {
    INLAY_UNROLL
    for (int r = 0; r < R; ++r) {
      const Bf16Pairs<Level> a = x(r);
      INLAY_UNROLL
      for (int c = 0; c < C; ++c) sum[r][c] = dot(F(sum[r][c]), a, b[c]).v;
    }
  }
  template <class X, class B> INLAY_INLINE void add_column(int c, X&& x, B b) {
    INLAY_UNROLL
    for (int r = 0; r < R; ++r)
      if constexpr (std::is_same_v<B, F>)
        sum[r][c] = fma(x(r), b, F(sum[r][c])).v;
      else
        sum[r][c] = dot(F(sum[r][c]), x(r), b).v;
  }
  template <class Emit> INLAY_INLINE void each(Emit&& emit) const {
    INLAY_UNROLL
    for (int r = 0; r < R; ++r) INLAY_UNROLL
    for (int c = 0; c < C; ++c) emit(r, c, F(sum[r][c]));
  }
};

}  // namespace inlay::simd
