// Floats to blocks of GGUF files: Q8_0, Q4_0 and Q4_1, to the bytes that ggml writes.
#pragma once

#include <cmath>

#include <inlay/core/ggml_blocks.hpp>

namespace inlay::ggml {

inline namespace INLAY_UNIT_ISA {

// The quantizers round as ggml's portable ones do, so that the bytes agree: the codes come from the
// scale before it is rounded to f16, Q8_0 rounds half away from zero, the 4-bit ones truncate x + 1/2.
inline void quantize_block(const float* x, Q8_0& block) {
  float largest = 0;
  for (index i = 0; i < 32; ++i) largest = std::fmax(largest, std::fabs(x[i]));
  const float d = largest / 127, inverse = d != 0 ? 1 / d : 0;
  block.d = f16(d);
  for (index i = 0; i < 32; ++i) block.q[i] = static_cast<std::int8_t>(std::round(x[i] * inverse));
}

}  // namespace INLAY_UNIT_ISA

namespace detail {
inline namespace INLAY_UNIT_ISA {

inline std::uint8_t nibble(float value) {
  const int code = static_cast<int>(value);
  return static_cast<std::uint8_t>(code < 0 ? 0 : code > 15 ? 15 : code);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

// The element of largest magnitude becomes code 0, that is -8, exactly: one code more than -7..7.
inline void quantize_block(const float* x, Q4_0& block) {
  float extreme = 0;
  for (index i = 0; i < 32; ++i)
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  const float d = extreme / -8, inverse = d != 0 ? 1 / d : 0;
  block.d = f16(d);
  for (index i = 0; i < 16; ++i)
    block.q[i] = static_cast<std::uint8_t>(detail::nibble(x[i] * inverse + 8.5f) |
                                           detail::nibble(x[i + 16] * inverse + 8.5f) << 4);
}
inline void quantize_block(const float* x, Q4_1& block) {
  float low = x[0], high = x[0];
  for (index i = 1; i < 32; ++i) {
    low = std::fmin(low, x[i]);
    high = std::fmax(high, x[i]);
  }
  const float d = (high - low) / 15, inverse = d != 0 ? 1 / d : 0;
  block.d = f16(d);
  block.m = f16(low);
  for (index i = 0; i < 16; ++i)
    block.q[i] = static_cast<std::uint8_t>(detail::nibble((x[i] - low) * inverse + 0.5f) |
                                           detail::nibble((x[i + 16] - low) * inverse + 0.5f) << 4);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay::ggml
