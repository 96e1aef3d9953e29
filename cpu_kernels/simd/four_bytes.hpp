// four_bytes(p): what dot products broadcast to every lane.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::simd {

template <class T> INLAY_INLINE std::int32_t four_bytes(const T* p) {
  static_assert(sizeof(T) == 1);
  std::int32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

}  // namespace inlay::simd
