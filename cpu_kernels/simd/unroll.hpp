// Loops whose bounds and counters are constants: arrays of registers stay registers, and shift
// counts are immediates, whatever the compiler thinks of the loop's size.
//
//   unroll<4>([&](auto i) INLAY_INLINE_LAMBDA { sum[i] = fma(a[i], b, sum[i]); });
#pragma once

#include <utility>

#include "cpu_kernels/simd/inline.hpp"

#define INLAY_INLINE_LAMBDA __attribute__((always_inline))

namespace inlay::simd {

template <int... I, class Body> INLAY_INLINE void unroll_over(std::integer_sequence<int, I...>, Body&& body) {
  (body(std::integral_constant<int, I>{}), ...);
}
// Beyond the registers of any machine it is a loop: the scalar level has sixteen floats for a vector.
template <int N, class Body> INLAY_INLINE void unroll(Body&& body) {
  if constexpr (N > 12)
    for (int i = 0; i < N; ++i) body(i);
  else
    unroll_over(std::make_integer_sequence<int, N>{}, body);
}

}  // namespace inlay::simd
