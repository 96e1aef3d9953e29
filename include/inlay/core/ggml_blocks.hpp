// The block formats of GGUF files, byte for byte, and what each byte means.
//
// d is the block's scale (f16). A 4-bit block of 32 holds element j in the low nibble of byte j and
// element j + 16 in its high nibble.
//
//   Q8_0   32 elements, 34 bytes   | d | q0 q1 ... q31 |                     x = d * q          q i8
//   Q4_0   32 elements, 18 bytes   | d | 16|0 17|1 ... 31|15 |               x = d * (q - 8)
//   Q4_1   32 elements, 20 bytes   | d | m | 16|0 17|1 ... 31|15 |           x = d * q + m
//   Q4_K  256 elements, 144 bytes  | d | dmin | 12 bytes | 4 x 32 bytes |    x = (d * s_g) * q - (dmin * m_g)
//   Q6_K  256 elements, 210 bytes  | 128 low | 64 high | 16 scales | d |     x = (d * s_g) * (q - 32)
//
// Q4_K: eight groups of 32. Bytes 32i .. 32i+31 of the codes hold group 2i in their low nibbles and
// group 2i+1 in their high ones. Six-bit scales s and minima m, by group, in 12 bytes:
//
//   byte  0..3    s4[5:4] s0[5:0]  s5 s1  s6 s2  s7 s3      (two high bits of the later group on top)
//   byte  4..7    m4[5:4] m0[5:0]  m5 m1  m6 m2  m7 m3
//   byte  8..11   m4[3:0] s4[3:0]  m5 s5  m6 s6  m7 s7
//
// Q6_K: sixteen groups of 16, in two halves of 128 elements. In each half, for l in 0..31:
//
//   element  l       low[l]    bits 3:0   high[l] bits 1:0
//   element  l + 32  low[l+32] bits 3:0   high[l] bits 3:2
//   element  l + 64  low[l]    bits 7:4   high[l] bits 5:4
//   element  l + 96  low[l+32] bits 7:4   high[l] bits 7:6
#pragma once

#include <cmath>
#include <cstdint>

#include <inlay/core/dtype.hpp>
#include <inlay/core/inline.hpp>

namespace inlay::ggml {

struct Q8_0 {
  static constexpr index size = 32;
  f16 d;
  std::int8_t q[32];
};
struct Q4_0 {
  static constexpr index size = 32;
  f16 d;
  std::uint8_t q[16];
};
struct Q4_1 {
  static constexpr index size = 32;
  f16 d, m;
  std::uint8_t q[16];
};
struct Q4_K {
  static constexpr index size = 256;
  f16 d, dmin;
  std::uint8_t scales[12];
  std::uint8_t q[128];
};
struct Q6_K {
  static constexpr index size = 256;
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scales[16];
  f16 d;
};
static_assert(sizeof(Q8_0) == 34 && sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q4_K) == 144 &&
              sizeof(Q6_K) == 210);

inline namespace INLAY_UNIT_ISA {

// Element i's code, as stored.
constexpr int code(const Q8_0& block, index i) { return block.q[i]; }
constexpr int code(const Q4_0& block, index i) { return i < 16 ? block.q[i] & 15 : block.q[i - 16] >> 4; }
constexpr int code(const Q4_1& block, index i) { return i < 16 ? block.q[i] & 15 : block.q[i - 16] >> 4; }
constexpr int code(const Q4_K& block, index i) {
  const int byte = block.q[i / 64 * 32 + i % 32];
  return i / 32 % 2 ? byte >> 4 : byte & 15;
}
constexpr int code(const Q6_K& block, index i) {
  const index half = i / 128, quarter = i / 32 % 4, l = i % 32;
  const int low = block.low[half * 64 + quarter % 2 * 32 + l];
  const int high = block.high[half * 32 + l] >> (2 * quarter) & 3;
  return (quarter < 2 ? low & 15 : low >> 4) | high << 4;
}

}  // namespace INLAY_UNIT_ISA

// The six-bit scale and minimum of a group of Q4_K.
struct ScaleMin {
  int scale, min;
};
inline namespace INLAY_UNIT_ISA {

constexpr ScaleMin scale_min(const Q4_K& block, index group) {
  const std::uint8_t* s = block.scales;
  if (group < 4) return {s[group] & 63, s[group + 4] & 63};
  return {(s[group + 4] & 15) | (s[group - 4] >> 6) << 4, s[group + 4] >> 4 | (s[group] >> 6) << 4};
}

inline void dequantize_block(const Q8_0& block, float* x) {
  const float d = static_cast<float>(block.d);
  for (index i = 0; i < 32; ++i) x[i] = d * static_cast<float>(block.q[i]);
}
inline void dequantize_block(const Q4_0& block, float* x) {
  const float d = static_cast<float>(block.d);
  for (index i = 0; i < 32; ++i) x[i] = static_cast<float>(code(block, i) - 8) * d;
}
inline void dequantize_block(const Q4_1& block, float* x) {
  const float d = static_cast<float>(block.d), m = static_cast<float>(block.m);
  for (index i = 0; i < 32; ++i) x[i] = static_cast<float>(code(block, i)) * d + m;
}
inline void dequantize_block(const Q4_K& block, float* x) {
  for (index group = 0; group < 8; ++group) {
    const ScaleMin s = scale_min(block, group);
    const float scale = static_cast<float>(block.d) * static_cast<float>(s.scale);
    const float min = static_cast<float>(block.dmin) * static_cast<float>(s.min);
    for (index i = 32 * group; i < 32 * group + 32; ++i) x[i] = scale * static_cast<float>(code(block, i)) - min;
  }
}
inline void dequantize_block(const Q6_K& block, float* x) {
  for (index group = 0; group < 16; ++group) {
    const float scale = static_cast<float>(block.d) * static_cast<float>(block.scales[group]);
    for (index i = 16 * group; i < 16 * group + 16; ++i) x[i] = scale * static_cast<float>(code(block, i) - 32);
  }
}

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
