// One element at a time, as double: slow and exact, for references, tests and tools.
#pragma once

#include <cmath>
#include <cstring>

#include <inlay/core/inline.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

// Element `i` of memory that holds `type`, widened exactly (i64 beyond 2^53 is rounded).
inline double load_element(const void* data, DType type, index i) {
  const auto read = [&]<class T>(T) {
    T value;
    std::memcpy(&value, static_cast<const char*>(data) + i * static_cast<index>(sizeof(T)), sizeof(T));
    return value;
  };
  switch (type) {
    case DType::f32: return read(float{});
    case DType::f16: return static_cast<float>(read(f16{}));
    case DType::bf16: return static_cast<float>(read(bf16{}));
    case DType::i8: return read(std::int8_t{});
    case DType::u8: return read(std::uint8_t{});
    case DType::i32: return read(std::int32_t{});
    case DType::i64: return static_cast<double>(read(std::int64_t{}));
    case DType::boolean: return read(std::uint8_t{}) != 0;
    case DType::i4:
    case DType::u4: break;
  }
  const int byte = static_cast<const std::uint8_t*>(data)[i / 2];
  const int nibble = i % 2 ? byte >> 4 : byte & 15;
  return type == DType::u4 || nibble < 8 ? nibble : nibble - 16;
}

// `value` rounded to `type` once, to nearest even; integers saturate, NaN becomes 0 in them.
inline double round_to(DType type, double value) {
  const auto saturate = [&](double low, double high) {
    if (std::isnan(value)) return 0.0;
    const double rounded = std::nearbyint(value);
    return rounded < low ? low : rounded > high ? high : rounded;
  };
  switch (type) {
    case DType::f32: return static_cast<float>(value);
    case DType::f16: return static_cast<float>(f16(round_to_odd(value)));
    case DType::bf16: return static_cast<float>(bf16(round_to_odd(value)));
    case DType::i8: return saturate(-128, 127);
    case DType::u8: return saturate(0, 255);
    case DType::i4: return saturate(-8, 7);
    case DType::u4: return saturate(0, 15);
    case DType::i32: return saturate(-2147483648.0, 2147483647.0);
    case DType::i64: return saturate(-0x1p63, 0x1p63 - 1024);
    case DType::boolean: return value != 0;
  }
  return value;
}

inline void store_element(void* data, DType type, index i, double value) {
  const auto write = [&](auto element) {
    std::memcpy(static_cast<char*>(data) + i * static_cast<index>(sizeof(element)), &element, sizeof(element));
  };
  if (type == DType::f32) return write(static_cast<float>(value));
  if (type == DType::f16) return write(f16(round_to_odd(value)));
  if (type == DType::bf16) return write(bf16(round_to_odd(value)));
  const double rounded = round_to(type, value);
  switch (type) {
    case DType::i8: return write(static_cast<std::int8_t>(rounded));
    case DType::u8: return write(static_cast<std::uint8_t>(rounded));
    case DType::i32: return write(static_cast<std::int32_t>(rounded));
    case DType::i64: return write(static_cast<std::int64_t>(rounded));
    case DType::boolean: return write(static_cast<std::uint8_t>(rounded));
    default: break;
  }
  auto& byte = static_cast<std::uint8_t*>(data)[i / 2];
  const int nibble = static_cast<int>(rounded) & 15;
  byte = static_cast<std::uint8_t>(i % 2 ? (byte & 0x0f) | nibble << 4 : (byte & 0xf0) | nibble);
}

// at(x, t, i) reads, put(y, t, i, value) rounds and writes.
template <class V, class... I> double at(const V& view, I... i) {
  return load_element(view.data, view.dtype, offset(view, i...));
}

inline void put(const View<1>& view, index i, double value) {
  store_element(view.data, view.dtype, offset(view, i), value);
}
inline void put(const View<2>& view, index i, index j, double value) {
  store_element(view.data, view.dtype, offset(view, i, j), value);
}
inline void put(const View<3>& view, index i, index j, index k, double value) {
  store_element(view.data, view.dtype, offset(view, i, j, k), value);
}
inline void put(const View<4>& view, index i, index j, index k, index l, double value) {
  store_element(view.data, view.dtype, offset(view, i, j, k, l), value);
}
inline void put(const View<5>& view, index i, index j, index k, index l, index m, double value) {
  store_element(view.data, view.dtype, offset(view, i, j, k, l, m), value);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
