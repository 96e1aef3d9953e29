// set_flushes(on): whether this thread takes subnormal operands for zero and flushes subnormal
// results to it (DAZ and FTZ of MXCSR). can_flush: whether the machine has such flags that we know.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::simd {

#if defined(__x86_64__)
inline constexpr bool can_flush = true;
INLAY_INLINE void set_flushes(bool on) {
  constexpr unsigned both = 0x8040;
  _mm_setcsr(on ? _mm_getcsr() | both : _mm_getcsr() & ~both);
}
#else
inline constexpr bool can_flush = false;
INLAY_INLINE void set_flushes(bool) {}
#endif

}  // namespace inlay::simd
