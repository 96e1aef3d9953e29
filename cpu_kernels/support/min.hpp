// The smaller of two extents: a last tile, piece or thread takes what is left. Not std::min, which a compiler may emit
// out of line, once for all levels (simd/inline.hpp).
#pragma once

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::cpu {

INLAY_INLINE constexpr index min(index a, index b) { return a < b ? a : b; }

}  // namespace inlay::cpu
