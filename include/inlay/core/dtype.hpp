// Element types, and the storage types that C++20 lacks.
//
// f16 and bf16 are storage: arithmetic happens in f32 after an exact widening. Narrowing rounds to
// nearest, ties to even, keeps infinities, and keeps NaN a NaN (quietened, sign and leading payload
// bits kept), bit for bit what F16C and AVX512-BF16 hardware returns for normal and subnormal input.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <inlay/core/inline.hpp>

namespace inlay {

using index = std::int64_t;  // extents, strides and offsets: pools pass 2^31 elements

enum class DType : std::uint8_t { f32, f16, bf16, i8, u8, i4, u4, i32, i64, boolean };

inline constexpr int dtype_count = 10;

inline namespace INLAY_UNIT_ISA {

// Bits of one element. i4 and u4 are stored two to a byte, the even element in the low nibble.
constexpr int bits(DType type) {
  constexpr int table[dtype_count] = {32, 16, 16, 8, 8, 4, 4, 32, 64, 8};
  return table[static_cast<int>(type)];
}

constexpr std::string_view name(DType type) {
  constexpr std::string_view table[dtype_count] = {"f32", "f16", "bf16", "i8", "u8", "i4", "u4", "i32", "i64", "bool"};
  return static_cast<int>(type) < dtype_count ? table[static_cast<int>(type)] : "of no known number";
}

// Bytes that `count` elements take when they lie side by side.
constexpr index byte_size(DType type, index count) { return (count * bits(type) + 7) / 8; }

}  // namespace INLAY_UNIT_ISA

// A set of element types, as a contract lists them: DTypes{DType::f32, DType::f16}.
class DTypes {
 public:
  INLAY_INLINE constexpr DTypes(DType type) : bits_(bit(type)) {}
  INLAY_INLINE constexpr DTypes(std::initializer_list<DType> types) {
    for (DType type : types) bits_ |= bit(type);
  }
  INLAY_INLINE constexpr bool contains(DType type) const { return (bits_ & bit(type)) != 0; }

 private:
  static INLAY_INLINE constexpr std::uint32_t bit(DType type) {
    return static_cast<int>(type) < dtype_count ? 1u << static_cast<int>(type) : 0;
  }
  std::uint32_t bits_ = 0;
};

INLAY_HIDDEN inline constexpr DTypes floats{DType::f32, DType::f16, DType::bf16};
INLAY_HIDDEN inline constexpr DTypes ids{DType::i32, DType::i64};

namespace detail {

inline namespace INLAY_UNIT_ISA {

constexpr std::uint16_t narrow_to_f16(float value) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (x >> 16) & 0x8000u;
  const std::uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u)  // NaN: quiet, leading payload kept
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u)  // 65520 and above round to infinity
    return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {                                           // below 2^-14: subnormal or zero
    if (magnitude < 0x33000000u) return static_cast<std::uint16_t>(sign);  // below 2^-25
    const int shift = 126 - static_cast<int>(magnitude >> 23);             // 14..24 bits go
    const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t kept = mantissa >> shift;
    const std::uint32_t rest = mantissa & ((1u << shift) - 1);
    const std::uint32_t half = 1u << (shift - 1);
    return static_cast<std::uint16_t>(sign | (kept + (rest > half || (rest == half && (kept & 1)))));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

constexpr float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = mantissa ? 0x400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {  // mantissa * 2^-24, exact in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

constexpr std::uint16_t narrow_to_bf16(float value) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((x >> 16) | 0x40u);
  return static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1)) >> 16);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

// IEEE binary16 as storage.
struct f16 {
  std::uint16_t bits = 0;
  INLAY_INLINE constexpr f16() = default;
  INLAY_INLINE constexpr explicit f16(float value) : bits(detail::narrow_to_f16(value)) {}
  INLAY_INLINE constexpr operator float() const { return detail::widen_f16(bits); }
  static INLAY_INLINE constexpr f16 from_bits(std::uint16_t bits) {
    f16 result;
    result.bits = bits;
    return result;
  }
};

// The upper half of binary32 as storage.
struct bf16 {
  std::uint16_t bits = 0;
  INLAY_INLINE constexpr bf16() = default;
  INLAY_INLINE constexpr explicit bf16(float value) : bits(detail::narrow_to_bf16(value)) {}
  INLAY_INLINE constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static INLAY_INLINE constexpr bf16 from_bits(std::uint16_t bits) {
    bf16 result;
    result.bits = bits;
    return result;
  }
};

inline namespace INLAY_UNIT_ISA {

// A double is narrowed once: double -> f32 -> f16 would round twice. Rounding to odd in the first
// step makes the second one correct (Boldo and Melquiond, 2008).
constexpr float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || value != value || back - back != 0) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (bits & 1) return nearest;
  // The even neighbour was chosen: step to the odd one on the other side of `value`.
  const bool away = (value > back) == (value > 0);
  if (nearest == 0) return std::bit_cast<float>(value > 0 ? 1u : 0x80000001u);
  bits = away ? bits + 1 : bits - 1;
  return std::bit_cast<float>(bits);
}

}  // namespace INLAY_UNIT_ISA

template <class T> struct dtype_of_type;
template <> struct dtype_of_type<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of_type<f16> { static constexpr DType value = DType::f16; };
template <> struct dtype_of_type<bf16> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of_type<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of_type<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct dtype_of_type<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of_type<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of_type<bool> { static constexpr DType value = DType::boolean; };

// The DType of a C++ type: dtype_of<float> == DType::f32.
template <class T> inline constexpr DType dtype_of = dtype_of_type<T>::value;

}  // namespace inlay
