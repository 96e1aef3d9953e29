// dot(acc, a, b): acc + a.odd * b.odd + a.even * b.even in each lane, where has_dot_bf16<Level>.
//
// VDPBF16PS fuses each of its two products into the sum with one rounding to nearest even, odd first,
// takes subnormal operands as zero, and flushes subnormal results to zero, whatever MXCSR says.
#pragma once

#include "cpu_kernels/simd/pairs.hpp"

namespace inlay::simd {

template <class Level> inline constexpr bool has_dot_bf16 = std::is_base_of_v<isa::avx512_bf16, Level>;

#if defined(__AVX512BF16__)
template <class Level>
requires has_dot_bf16<Level> INLAY_INLINE Floats<Level> dot(Floats<Level> acc, Bf16Pairs<Level> a, Bf16Pairs<Level> b) {
  return _mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)b.v);
}
#endif

}  // namespace inlay::simd
