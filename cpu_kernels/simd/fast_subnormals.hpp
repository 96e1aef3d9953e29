// has_fast_subnormals<Level>(): whether an fma with a subnormal operand takes as long as any other. No flag
// of the machine tells, so it is measured, once in a process: Zen 4 does not notice them, others call
// microcode for each. Not measured without a counter of cycles, as on Arm: no.
#pragma once

#include <cstdint>

#include <inlay/core/float_modes.hpp>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/intrinsics.hpp"
#include "cpu_kernels/simd/unroll.hpp"

namespace inlay::simd {

#if defined(__x86_64__)
// Cycles of the time stamp counter that fma takes with the operand: the least of a few trials, since what
// interrupts one makes it longer.
template <class Level> std::uint64_t fma_cycles(float operand) {
  constexpr int trials = 8, rounds = 100, chains = 4;
  std::uint64_t least = ~std::uint64_t{0};
  for (int trial = 0; trial < trials; ++trial) {
    const volatile float opaque = operand;
    const Floats<Level> a(opaque), b(1);
    Floats<Level> sum[chains];
    const std::uint64_t start = __rdtsc();
    for (int i = 0; i < rounds; ++i) unroll<chains>([&](auto k) INLAY_INLINE_LAMBDA { sum[k] = fma(a, b, sum[k]); });
    volatile float sink = reduce_sum(sum[0] + sum[1] + sum[2] + sum[3]);
    static_cast<void>(sink);
    const std::uint64_t cycles = __rdtsc() - start;
    least = cycles < least ? cycles : least;
  }
  return least;
}
template <class Level> bool has_fast_subnormals() {
  static const bool fast = [] {
    const fp::KeepSubnormals mode;
    constexpr float subnormal = 0x1p-130f, normal = 0x1p-30f;
    return fma_cycles<Level>(subnormal) < 2 * fma_cycles<Level>(normal);
  }();
  return fast;
}
#else
template <class Level> bool has_fast_subnormals() { return false; }
#endif

}  // namespace inlay::simd
