// exp in double for z <= 0, eight at a time: plain loops of a known count over IEEE operations, so
// that every level, whatever its registers, gives the same bits.
#pragma once

#include <bit>
#include <cstdint>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::simd {

inline constexpr int exp_width = 8;
// Below this exp is zero here: no subnormal results.
inline constexpr double exp_lowest = -708;

// exp(z) = 2^n exp(r), |r| <= ln(2)/2, ln 2 in two parts (the first has 32 bits, its product with n is
// exact), Taylor's series to r^13: 1 ulp. n is rounded by adding 1.5 * 2^52, whose last bits hold it.
INLAY_INLINE void exp_not_positive(const double* z, double* result) {
  constexpr double log2_e = 0x1.71547652b82fep+0, ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
  constexpr double round = 0x1.8p52;
  for (int i = 0; i < exp_width; ++i) {
    const bool reached = z[i] >= exp_lowest;
    const double x = reached ? z[i] : 0;
    const double shifted = x * log2_e + round, n = shifted - round;
    const double r = (x - n * ln2_high) - n * ln2_low;
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r + 1;
    const double power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
    result[i] = reached ? p * power : 0;
  }
}

}  // namespace inlay::simd
