// set_flushes(on): whether this thread takes subnormal operands for zero and flushes subnormal
// results to it (DAZ and FTZ of MXCSR). can_flush: whether the machine has such flags that we know.
// KeepSubnormals: while it lives, this thread's subnormal operands are what they are. NoFlushing: and its results too.
#pragma once

#if defined(__x86_64__)
#include "cpu_kernels/simd/immintrin.hpp"
#endif

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::simd {

#if defined(__x86_64__)
inline constexpr bool can_flush = true;
INLAY_INLINE void set_flushes(bool on) {
  constexpr unsigned both = 0x8040;
  _mm_setcsr(on ? _mm_getcsr() | both : _mm_getcsr() & ~both);
}

class KeepSubnormals {
 public:
  INLAY_INLINE KeepSubnormals() : before_(_mm_getcsr()) {
    constexpr unsigned operands_are_zero = 0x40;
    _mm_setcsr(before_ & ~operands_are_zero);
  }
  INLAY_INLINE ~KeepSubnormals() { _mm_setcsr(before_); }
  KeepSubnormals(const KeepSubnormals&) = delete;
  KeepSubnormals& operator=(const KeepSubnormals&) = delete;

 private:
  unsigned before_;
};
class NoFlushing {
 public:
  INLAY_INLINE NoFlushing() : before_(_mm_getcsr()) { set_flushes(false); }
  INLAY_INLINE ~NoFlushing() { _mm_setcsr(before_); }
  NoFlushing(const NoFlushing&) = delete;
  NoFlushing& operator=(const NoFlushing&) = delete;

 private:
  unsigned before_;
};
#else
inline constexpr bool can_flush = false;
INLAY_INLINE void set_flushes(bool) {}

class [[maybe_unused]] KeepSubnormals {};
class [[maybe_unused]] NoFlushing {};
#endif

}  // namespace inlay::simd
