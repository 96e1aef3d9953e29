// prefetch_lines(p, bytes): asks for the lines of p .. p + bytes. No address faults.
//
// Into L2: what is asked for is a stretch of tokens of all heads, and that is as large as L1, which it
// would sweep of queries and scores (Zen 4, decode of 32:8 x 128: 8 GB/s a thread into L1, 13 into L2).
#pragma once

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::simd {

INLAY_INLINE void prefetch_lines(const void* p, index bytes) {
  constexpr index line = 64;
  const char* const first = static_cast<const char*>(p);
  for (index at = 0; at < bytes; at += line) {
    // GCC 12 deletes calls of functions that do nothing but __builtin_prefetch.
#if defined(__x86_64__)
    asm volatile("prefetcht1 %0" : : "m"(first[at]));
#elif defined(__aarch64__)
    asm volatile("prfm pldl2keep, [%0]" : : "r"(first + at));
#else
    __builtin_prefetch(first + at, 0, 2);
#endif
  }
}

}  // namespace inlay::simd
