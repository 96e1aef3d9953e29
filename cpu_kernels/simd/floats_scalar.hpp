// One lane of plain C++: what runs where no other level does.
#pragma once

#include <cmath>

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct Floats<Level> {
  static constexpr index size = 1;
  using Lane = float;
  using Mask = bool;
  float v;

  INLAY_INLINE Floats() : v(0) {}
  INLAY_INLINE explicit Floats(float value) : v(value) {}

  template <class T> static INLAY_INLINE Floats load(const T* p) { return Floats(static_cast<float>(*p)); }
  template <class T> static INLAY_INLINE Floats load(const T* p, index n) { return n > 0 ? load(p) : Floats(); }
  template <class T> INLAY_INLINE void store(T* p) const { *p = static_cast<T>(v); }
  template <class T> INLAY_INLINE void store(T* p, index n) const {
    if (n > 0) store(p);
  }
  INLAY_INLINE void store_i8(std::int8_t* p) const {
    const float rounded = std::nearbyint(v);
    *p = v != v ? std::int8_t{0} : static_cast<std::int8_t>(rounded < -128 ? -128 : rounded > 127 ? 127 : rounded);
  }
  INLAY_INLINE void store_i8(std::int8_t* p, index n) const {
    if (n > 0) store_i8(p);
  }
  INLAY_INLINE void store_u8(std::uint8_t* p) const {
    const float rounded = std::nearbyint(v);
    *p = v != v ? std::uint8_t{0} : static_cast<std::uint8_t>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
  }
  INLAY_INLINE void store_u8(std::uint8_t* p, index n) const {
    if (n > 0) store_u8(p);
  }
  static INLAY_INLINE Mask first(index n) { return n > 0; }
  static INLAY_INLINE bool any(Mask mask) { return mask; }

  friend INLAY_INLINE Floats operator+(Floats a, Floats b) { return Floats(a.v + b.v); }
  friend INLAY_INLINE Floats operator-(Floats a, Floats b) { return Floats(a.v - b.v); }
  friend INLAY_INLINE Floats operator*(Floats a, Floats b) { return Floats(a.v * b.v); }
  friend INLAY_INLINE Floats operator/(Floats a, Floats b) { return Floats(a.v / b.v); }
  friend INLAY_INLINE Mask operator<(Floats a, Floats b) { return a.v < b.v; }
  friend INLAY_INLINE Floats fma(Floats a, Floats b, Floats c) { return Floats(a.v * b.v + c.v); }
  friend INLAY_INLINE Floats min(Floats a, Floats b) { return Floats(a.v < b.v ? a.v : b.v); }
  friend INLAY_INLINE Floats max(Floats a, Floats b) { return Floats(a.v > b.v ? a.v : b.v); }
  friend INLAY_INLINE Floats abs(Floats a) { return Floats(__builtin_fabsf(a.v)); }
  friend INLAY_INLINE Floats sqrt(Floats a) { return Floats(__builtin_sqrtf(a.v)); }
  friend INLAY_INLINE Floats round(Floats a) { return Floats(std::nearbyint(a.v)); }
  friend INLAY_INLINE Floats select(Mask mask, Floats yes, Floats no) { return mask ? yes : no; }
  friend INLAY_INLINE float reduce_sum(Floats a) { return a.v; }
  friend INLAY_INLINE float reduce_max(Floats a) { return a.v; }
  friend INLAY_INLINE float reduce_min(Floats a) { return a.v; }
  friend INLAY_INLINE FloatPair<Floats> deinterleave(Floats a, Floats b) { return {a, b}; }
  friend INLAY_INLINE FloatPair<Floats> interleave(Floats a, Floats b) { return {a, b}; }
  friend INLAY_INLINE Floats scale_by_power(Floats p, Floats n) {
    return Floats(elementary::scale_by_power(p.v, n.v));
  }
  static constexpr float vanishing_power = -127;
  friend INLAY_INLINE Floats scale_or_vanish(Floats p, Floats n) {
    if (n.v != n.v) return n;
    return Floats(p.v * std::bit_cast<float>((static_cast<int>(n.v) + 127) << 23));
  }
};

}  // namespace inlay::simd
