// opaque(x): x, of which the compiler knows nothing from here on.
//
// A pointer that steps through a row: GCC 12 otherwise computes the addresses of all its rows and steps
// ahead of the loop and keeps them in vector registers. A register that several fma share: GCC 12 otherwise
// makes its load an operand of each, and 512-bit loads are as rare as fma on Zen 4.
#pragma once

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class T> INLAY_INLINE T* opaque(T* p) {
  asm volatile("" : "+r"(p));
  return p;
}
template <class Level> INLAY_INLINE Floats<Level> opaque(Floats<Level> x) {
  Register<Level> lanes = x.v;
#if defined(__aarch64__)
  asm volatile("" : "+w"(lanes));
#elif defined(__x86_64__)
  if constexpr (std::is_base_of_v<isa::avx512, Level>)
    asm volatile("" : "+v"(lanes));
  else
    asm volatile("" : "+x"(lanes));
#endif
  return Floats<Level>(lanes);
}

}  // namespace inlay::simd
