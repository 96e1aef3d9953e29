// dot(acc, a, b): acc + a.odd * b.odd + a.even * b.even in each lane, where has_dot_bf16<Level>.
//
// VDPBF16PS fuses each of its two products into the sum with one rounding to nearest even, odd first,
// takes subnormal operands as zero, and flushes subnormal results to zero, whatever MXCSR says.
//
// Floats are rounded to such pairs by the instruction that comes with it: to nearest even, NaN stays NaN, subnormals
// become zero, which they would be to the product anyway.
//   to_bf16(low, high)          one register behind the other
//   to_bf16_pairs(even, odd)    side by side
#pragma once

#include "cpu_kernels/simd/pairs.hpp"

namespace inlay::simd {

template <class Level> inline constexpr bool has_dot_bf16 = std::is_base_of_v<isa::avx512_bf16, Level>;

#if defined(__AVX512BF16__)
template <class Level>
requires has_dot_bf16<Level> INLAY_INLINE Floats<Level> dot(Floats<Level> acc, Bf16Pairs<Level> a, Bf16Pairs<Level> b) {
  return _mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)b.v);
}
template <class Level>
requires has_dot_bf16<Level> INLAY_INLINE Bf16Pairs<Level> to_bf16(Floats<Level> low, Floats<Level> high) {
  return {(__m512i)_mm512_cvtne2ps_pbh(high.v, low.v)};
}
template <class Level>
requires has_dot_bf16<Level> INLAY_INLINE Bf16Pairs<Level> to_bf16_pairs(Floats<Level> even, Floats<Level> odd) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return {_mm512_permutexvar_epi16(order, to_bf16(even, odd).v)};
}
#endif

}  // namespace inlay::simd
