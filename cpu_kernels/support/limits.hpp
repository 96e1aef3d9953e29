// The fastest loops that we know for reading memory and for multiplying: denominators of benchmarks.
#pragma once

#include <bit>

#include <inlay/cpu_limits.hpp>

#include "cpu_kernels/simd/dot_bf16.hpp"
#include "cpu_kernels/simd/dot_i8.hpp"
#include "cpu_kernels/simd/floats.hpp"

namespace inlay::cpu {

// Four places of the range at once, as kernels read several panels: one stream alone does not keep
// the memory busy (0.8 of this on Zen 5). The sums keep the loads alive.
template <class Level> float read_bytes(const std::byte* begin, const std::byte* end) {
  using F = simd::Floats<Level>;
  constexpr index streams = 4, step = 4 * F::size;
  const float* p = reinterpret_cast<const float*>(begin);
  const index part = (end - begin) / static_cast<index>(sizeof(float)) / streams / step * step;
  F a, b, c, d;
  for (index i = 0; i < part; i += F::size) {
    a = a + F::load(p + i);
    b = b + F::load(p + part + i);
    c = c + F::load(p + 2 * part + i);
    d = d + F::load(p + 3 * part + i);
  }
  return reduce_sum((a + b) + (c + d));
}

// Twelve chains cover the latency of two fma units at four cycles, with registers to spare.
template <class Level> double fma_chains(index rounds, float* sink) {
  using F = simd::Floats<Level>;
  constexpr int chains = 12;
  F acc[chains];
  const F a(0.999f), b(*sink);
  for (index i = 0; i < rounds; ++i) {
    INLAY_UNROLL
    for (int k = 0; k < chains; ++k) acc[k] = fma(acc[k], a, b);
  }
  INLAY_UNROLL
  for (int k = 1; k < chains; ++k) acc[0] = acc[0] + acc[k];
  *sink = reduce_sum(acc[0]);
  return 2.0 * chains * static_cast<double>(F::size) * static_cast<double>(rounds);
}

// Two products a lane and instruction.
template <class Level> double bf16_chains(index rounds, float* sink) {
  if constexpr (simd::has_dot_bf16<Level>) {
    using F = simd::Floats<Level>;
    using Pairs = simd::Bf16Pairs<Level>;
    constexpr int chains = 12;
    F acc[chains];
    const Pairs a = Pairs::broadcast(0x3f803f80u), b = Pairs::broadcast(std::bit_cast<std::uint32_t>(*sink));
    for (index i = 0; i < rounds; ++i) {
      INLAY_UNROLL
      for (int k = 0; k < chains; ++k) acc[k] = dot(acc[k], a, b);
    }
    INLAY_UNROLL
    for (int k = 1; k < chains; ++k) acc[0] = acc[0] + acc[k];
    *sink = reduce_sum(acc[0]);
    return 4.0 * chains * static_cast<double>(F::size) * static_cast<double>(rounds);
  } else {
    return fma_chains<Level>(rounds, sink);
  }
}

// The exact int8 dot product in registers: VPDPBUSD, or VPMADDWD and VPADDD on widened bytes.
template <class Level> double int8_chains(index rounds, float* sink) {
  using Dot = simd::DotI8<Level>;
  std::int8_t line[64];
  typename Dot::Input four[4];
  for (int i = 0; i < 64; ++i) line[i] = static_cast<std::int8_t>(i - 32 + static_cast<int>(*sink));
  for (int i = 0; i < 4; ++i) four[i] = static_cast<typename Dot::Input>(i + static_cast<int>(*sink));
  const auto weights = Dot::Weights::load(line);
  const auto inputs = Dot::Inputs::load(four);
  typename Dot::Sums sums[Dot::chains];
  for (index i = 0; i < rounds; ++i) {
    INLAY_UNROLL
    for (int k = 0; k < Dot::chains; ++k) {
      auto x = inputs;
      x.hide();
      dot(sums[k], weights, x);
    }
  }
  INLAY_UNROLL
  for (int k = 1; k < Dot::chains; ++k) sums[0] = sums[0] + sums[k];
  std::int32_t total[16];
  sums[0].store(total);
  *sink = static_cast<float>(total[0]);
  return 2.0 * 4 * Dot::channels * Dot::chains * static_cast<double>(rounds);
}

}  // namespace inlay::cpu
