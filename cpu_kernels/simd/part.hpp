// The first n elements of a register by way of memory, where the machine has no masked move for them.
#pragma once

#include <cstring>

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::simd {

// load(memory) of `size` elements: n from p, the rest zero. Most callers come with all of them, and a copy of n is a
// call.
template <index size, class T, class Load> INLAY_INLINE auto load_part(const T* p, index n, Load&& load) {
  if (n == size) return load(p);
  T part[size] = {};
  std::memcpy(part, p, static_cast<std::size_t>(n) * sizeof(T));
  return load(part);
}

// store(memory) of `size` elements, of which n go to p.
template <index size, class T, class Store> INLAY_INLINE void store_part(T* p, index n, Store&& store) {
  if (n == size) return store(p);
  T part[size];
  store(part);
  std::memcpy(p, part, static_cast<std::size_t>(n) * sizeof(T));
}

}  // namespace inlay::simd
