// The 16-bit floats of Ascend C on a host: stored in 16 bits, computed with in f32, rounded to nearest even.
#pragma once

#include <cstdint>
#include <cstring>

inline float float_of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

struct half {
  std::uint16_t bits;

  half() = default;
  explicit half(float value) {
    const std::uint32_t from = bits_of_float(value), magnitude = from & 0x7fffffff;
    const std::uint16_t sign = static_cast<std::uint16_t>(from >> 16 & 0x8000);
    if (magnitude > 0x7f800000) {
      bits = static_cast<std::uint16_t>(sign | 0x7e00);
    } else if (magnitude >= 0x477ff000) {
      bits = static_cast<std::uint16_t>(sign | 0x7c00);
    } else if (magnitude < 0x38800000) {  // subnormal: the addition rounds to a multiple of 2^-24
      bits = static_cast<std::uint16_t>(sign | (bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000));
    } else {
      const std::uint32_t odd = magnitude >> 13 & 1;
      bits = static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
    }
  }
  operator float() const {
    const std::uint32_t sign = std::uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) return float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400) return float_of_bits(sign | ((rest << 13) + 0x38000000));
    const float tiny = float_of_bits(0x3f000000 | rest) - 0.5f;
    return sign != 0 ? -tiny : tiny;
  }
};

struct bfloat16_t {
  std::uint16_t bits;

  bfloat16_t() = default;
  explicit bfloat16_t(float value) {
    const std::uint32_t from = bits_of_float(value);
    const bool nan = (from & 0x7fffffff) > 0x7f800000;
    bits = static_cast<std::uint16_t>(nan ? from >> 16 | 0x40 : (from + 0x7fff + (from >> 16 & 1)) >> 16);
  }
  operator float() const { return float_of_bits(std::uint32_t{bits} << 16); }
};
