// exp, tanh and the tail of the normal distribution by polynomials, for any type F of one or several f32 lanes: the CPU
// kernels' registers (cpu_kernels/simd), and float itself, of which the tile machine computes one at a time with the
// same bits on every host. What F needs are the primitives that float has here, found by its own namespace.
#pragma once

#include <bit>
#include <cmath>

#include <inlay/core/inline.hpp>

namespace inlay::elementary {

inline namespace INLAY_UNIT_ISA {

// One lane, never fused.
INLAY_INLINE float fma(float a, float b, float c) { return a * b + c; }
INLAY_INLINE float min(float a, float b) { return a < b ? a : b; }  // b where one is NaN, as max
INLAY_INLINE float max(float a, float b) { return a > b ? a : b; }
INLAY_INLINE float abs(float a) { return __builtin_fabsf(a); }
INLAY_INLINE float round(float a) { return std::nearbyint(a); }
INLAY_INLINE float select(bool mask, float yes, float no) { return mask ? yes : no; }
// p * 2^n, in two exact factors so that subnormal results round once.
INLAY_INLINE float scale_by_power(float p, float n) {
  if (n != n) return n;
  const int whole = static_cast<int>(n), half = whole >> 1;
  const float a = std::bit_cast<float>((half + 127) << 23);
  const float b = std::bit_cast<float>((whole - half + 127) << 23);
  return p * a * b;
}

// exp(x) = 2^n * p(r), n = round(x / ln 2), |r| <= ln(2)/2. The polynomial is Cephes' expf; ln 2 is
// subtracted in two parts so that r is exact. The clamp keeps 2^n in reach of two factors: below
// -104 every result rounds to zero, from 88.73 on it is infinite. exp_below is for what is no more than 89.
//
// Not xsimd's: it gives 0 below -87.34, where results are subnormal, 1.49 ulp elsewhere (this: 0.99), and takes 0.8
// cycles an element at AVX-512 instead of 0.5 (Zen 5, g++ 12; at AVX2 1.0 instead of 1.4).
template <class F> INLAY_INLINE F exp_below(F x) {
  x = max(F(-104.0f), x);
  const F n = round(x * F(1.44269504088896341f));
  F r = fma(n, F(-0.693359375f), x);
  r = fma(n, F(2.12194440e-4f), r);
  F p = fma(F(1.9875691500e-4f), r, F(1.3981999507e-3f));
  p = fma(p, r, F(8.3334519073e-3f));
  p = fma(p, r, F(4.1665795894e-2f));
  p = fma(p, r, F(1.6666665459e-1f));
  p = fma(p, r, F(5.0000001201e-1f));
  p = fma(p * r, r, r) + F(1.0f);
  return scale_by_power(p, n);
}
template <class F> INLAY_INLINE F exp(F x) { return exp_below(min(F(89.0f), x)); }

// tanh(x), < 3 ulp: Cephes' polynomial below 0.625, 1 - 2 / (exp(2x) + 1) above. NaN stays.
template <class F> INLAY_INLINE F tanh(F x) {
  const F magnitude = abs(x), square = x * x;
  F p = fma(F(-5.70498872745e-3f), square, F(2.06390887954e-2f));
  p = fma(p, square, F(-5.37397155531e-2f));
  p = fma(p, square, F(1.33314422036e-1f));
  p = fma(p, square, F(-3.33332819422e-1f));
  const F small = fma(p * square, x, x);
  const F far = F(1.0f) - F(2.0f) / (exp(magnitude + magnitude) + F(1.0f));
  return select(magnitude < F(0.625f), small, select(x < F(), F() - far, far));
}

// exp(x^2/2) * normal_cdf(-x) for x >= 0, Mills' ratio over sqrt(2 pi), is smooth and tends to
// 1 / (x sqrt(2 pi)). With t = 1 / (1 + 0.35 x) it is t * p(t), p of degree 8 interpolated at
// Chebyshev's nodes of 0 <= x <= 15: 4.1e-8 off at most, 5.5 eps with the roundings of f32, 6.1 without fma.
template <class F> INLAY_INLINE F scaled_tail(F x) {
  const F t = F(1.0f) / fma(F(0.35f), x, F(1.0f));
  F p = fma(F(-2.977043899e-02f), t, F(1.469509221e-01f));
  p = fma(p, t, F(-2.617126692e-01f));
  p = fma(p, t, F(1.658018015e-01f));
  p = fma(p, t, F(-2.748288953e-02f));
  p = fma(p, t, F(1.072627730e-01f));
  p = fma(p, t, F(1.194170361e-01f));
  p = fma(p, t, F(1.399148040e-01f));
  p = fma(p, t, F(1.396186429e-01f));
  return p * t;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay::elementary
