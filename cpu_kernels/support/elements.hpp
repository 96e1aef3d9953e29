// Elements of a run-time dtype as registers of f32. The switch is the same for every register of a
// row, so that the branch costs a cycle where a template would cost one kernel for each dtype.
#pragma once

#include <cstring>

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::cpu {

// Elements at .. at + n of `data`, 1 <= n <= F::size; the other lanes are zero.
template <class Level> INLAY_INLINE simd::Floats<Level> load_elements(const void* data, DType type, index at, index n) {
  using F = simd::Floats<Level>;
  const auto load = [&]<class T>(const T* p) { return n == F::size ? F::load(p + at) : F::load(p + at, n); };
  switch (type) {
    case DType::f32: return load(static_cast<const float*>(data));
    case DType::f16: return load(static_cast<const f16*>(data));
    case DType::bf16: return load(static_cast<const bf16*>(data));
    case DType::i8: return load(static_cast<const std::int8_t*>(data));
    case DType::u8: return load(static_cast<const std::uint8_t*>(data));
    default: break;
  }
  const std::uint8_t* bytes = static_cast<const std::uint8_t*>(data);
  const int sign = type == DType::i4 ? 8 : 0;  // nibble ^ 8, minus 8: the sign extended
  std::int8_t part[F::size] = {};
  for (index i = 0; i < n; ++i) {
    const int nibble = bytes[(at + i) / 2] >> ((at + i) % 2 * 4) & 15;
    part[i] = static_cast<std::int8_t>((nibble ^ sign) - sign);
  }
  return F::load(part);
}

// Floats are rounded once, integers to nearest even and saturated; NaN becomes 0 in them. A nibble
// that shares its byte with one outside at .. at + n leaves that one as it is.
template <class Level>
INLAY_INLINE void store_elements(simd::Floats<Level> v, void* data, DType type, index at, index n) {
  using F = simd::Floats<Level>;
  const auto store = [&]<class T>(T* p) { n == F::size ? v.store(p + at) : v.store(p + at, n); };
  switch (type) {
    case DType::f32: return store(static_cast<float*>(data));
    case DType::f16: return store(static_cast<f16*>(data));
    case DType::bf16: return store(static_cast<bf16*>(data));
    case DType::i8: return v.store_i8(static_cast<std::int8_t*>(data) + at, n);
    case DType::u8: return v.store_u8(static_cast<std::uint8_t*>(data) + at, n);
    default: break;
  }
  std::uint8_t* bytes = static_cast<std::uint8_t*>(data);
  const bool is_signed = type == DType::i4;
  std::int8_t part[F::size];
  min(F(is_signed ? 7 : 15), max(F(is_signed ? -8 : 0), v)).store_i8(part);
  for (index i = 0; i < n; ++i) {
    std::uint8_t& byte = bytes[(at + i) / 2];
    const int shift = (at + i) % 2 * 4;
    byte = static_cast<std::uint8_t>((byte & (0xf0 >> shift)) | (part[i] & 15) << shift);
  }
}

}  // namespace inlay::cpu
