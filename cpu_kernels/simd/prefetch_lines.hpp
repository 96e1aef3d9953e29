// prefetch_lines(p, bytes): asks for the lines of p .. p + bytes. No address faults.
#pragma once

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::simd {

INLAY_INLINE void prefetch_lines(const void* p, index bytes) {
  constexpr index line = 64;
  const char* const first = static_cast<const char*>(p);
  for (index at = 0; at < bytes; at += line) {
#if defined(__x86_64__)
    // GCC 12 deletes calls of functions that do nothing but __builtin_prefetch.
    asm volatile("prefetcht0 %0" : : "m"(first[at]));
#else
    __builtin_prefetch(first + at);
#endif
  }
}

}  // namespace inlay::simd
