// Loops whose bounds and counters are constants: arrays of registers stay registers, and shift
// counts are immediates, whatever the compiler thinks of the loop's size.
//
//   unroll<4>([&](auto i) INLAY_INLINE_LAMBDA { sum[i] = fma(a[i], b, sum[i]); });
//   with_count<4>(rows, [&](auto r) INLAY_INLINE_LAMBDA { tile<r>(x); });
#pragma once

#include <utility>

#include <inlay/core/dtype.hpp>

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

// run(std::integral_constant<int, n>) for an n of 1 .. Most that is known when the program runs; nothing for others.
template <int Most, class Run> INLAY_INLINE void with_count(index n, Run&& run) {
  if (n == Most) return run(std::integral_constant<int, Most>{});
  if constexpr (Most > 1) with_count<Most - 1>(n, run);
}

}  // namespace inlay::simd
