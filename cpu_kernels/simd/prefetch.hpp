// Rows of one head lie far apart (heads * dim), and the hardware's prefetchers, which follow streams of
// neighbouring lines, leave most of the bandwidth unused: whoever reads a row asks for a later one.
#pragma once

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::simd {

inline constexpr index cache_line = 64;

// Into L2: a tile of K, a tile of V and their scratch together outgrow L1 (into L1: 15% slower at 32 kv
// heads of 128).
INLAY_INLINE void prefetch_row(const void* row, index bytes) {
  for (index i = 0; i < bytes; i += cache_line) __builtin_prefetch(static_cast<const char*>(row) + i, 0, 2);
}

}  // namespace inlay::simd
