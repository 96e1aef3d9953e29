// Random numbers without state: Philox4x32-10, a keyed hash of a counter.      Salmon et al., 2011
//
// The same key and counter give the same numbers on every machine, in any order, on any thread.
#pragma once

#include <array>
#include <cstdint>

#include <inlay/core/inline.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

// Inlined always: kernels of several instruction sets share it.
[[gnu::always_inline]] constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                                                     std::array<std::uint32_t, 4> counter) {
  constexpr int rounds = 10;
  constexpr std::uint64_t multiplier[2] = {0xd2511f53u, 0xcd9e8d57u};
  constexpr std::uint32_t weyl[2] = {0x9e3779b9u, 0xbb67ae85u};  // golden ratio, sqrt(3) - 1
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t a = multiplier[0] * counter[0], b = multiplier[1] * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += weyl[0];
    k1 += weyl[1];
  }
  return counter;
}

// 53 bits as a number in [0, 1).
[[gnu::always_inline]] constexpr double unit_interval(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((static_cast<std::uint64_t>(high) << 32 | low) >> 11) * 0x1p-53;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
