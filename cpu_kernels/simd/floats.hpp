// Floats<Level>: a register of f32 lanes. Kernels are written over it once.
//
//   size                                 lanes
//   Floats(), Floats(s)                  zero, broadcast
//   load(p), load(p, n)                  from f32 f16 bf16 i8 u8, widened; n: the first n lanes, rest 0
//   load_halves(p, q)                    half the lanes from p, half from q (AVX-512, f16 bf16)
//   store(p), store(p, n)                to f32, and rounded to nearest even to f16 bf16
//   store_i8(p), store_i8(p, n)          rounded to nearest even, saturated; NaN becomes 0
//   store_u8(p), store_u8(p, n)          likewise
//   + - * / fma(a,b,c)=a*b+c  min max    min and max return the second operand where one is NaN
//   abs sqrt round exp                   exp: < 1.5 ulp, exp(-inf) = 0, NaN stays
//   weight_exp(x)                        of x <= 0, 2.1 ulp, and 0 where that is subnormal
//   reduce_sum reduce_max reduce_min      over the lanes
//   a < b, select(mask, yes, no)         first(n): the mask of the first n lanes; any(mask)
//   deinterleave(a, b), interleave(a, b) x0 y0 x1 y1 .. <-> x0 x1 .., y0 y1 ..
#pragma once

#include <type_traits>

#include <inlay/core/dtype.hpp>
#include <inlay/core/elementary.hpp>
#include <inlay/core/isa.hpp>

#include "cpu_kernels/simd/inline.hpp"
#include "cpu_kernels/simd/unroll.hpp"

namespace inlay::simd {

template <class Level> struct Floats;

// Arrays of registers are arrays of these: GCC 12 keeps an array of Floats in memory too.
template <class Level> using Register = typename Floats<Level>::Lane;

// Two registers: what the interleaving functions return.
template <class F> struct FloatPair { F first, second; };

using elementary::exp;
using elementary::exp_below;

// exp(x) of x <= 0 for a softmax, whose weights are added up: 2^t, t = x / ln 2, in two thirds of the instructions.
// That t is rounded once makes it off by eps |x| besides, as much as x is where it is a difference that was rounded.
// The polynomial is the best of degree 5 on |r| <= 1/2 that is 1 at 0 (relative error 0.9e-7; degree 6: 2e-9, and a
// tenth of what softmax_tile takes). exp(0) is 1, exp(-inf) is 0, NaN stays; a result below 2^-126 may be 0.
template <class F> INLAY_INLINE F weight_exp(F x) {
  const F t = max(F(F::vanishing_power), x * F(1.44269504088896341f));
  const F n = round(t), r = t - n;
  F p = fma(F(1.3264727e-3f), r, F(9.6715126e-3f));
  p = fma(p, r, F(5.5507337e-2f));
  p = fma(p, r, F(2.4022242e-1f));
  p = fma(p, r, F(6.9314698e-1f));
  p = fma(p, r, F(1.0f));
  return scale_or_vanish(p, n);
}

}  // namespace inlay::simd

#include "cpu_kernels/simd/floats_scalar.hpp"
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "cpu_kernels/simd/floats_avx2.hpp"
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "cpu_kernels/simd/floats_avx512.hpp"
#endif
#if defined(__aarch64__)
#include "cpu_kernels/simd/floats_neon.hpp"
#endif
