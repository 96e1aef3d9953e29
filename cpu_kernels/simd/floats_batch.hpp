// Registers of lanes: what xsimd knows of its batches, and Lanes<Level>, in intrinsics, for the rest.
#pragma once

#include "cpu_kernels/simd/batch.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/part.hpp"

namespace inlay::simd {

// What xsimd 8.1 lacks, over bare registers of f32; one specialisation for each kind of register.
//
//   load(p), store(p, v)                   from and to f16 bf16; load from i8 u8; store_i8, store_u8
//   load(p, n), store(p, v, n), ..         where the machine has them: through memory otherwise
//   first(n)                               the register of a mask
//   reduce_max reduce_min deinterleave interleave scale_by_power scale_or_vanish
//   fma reduce_sum                         where xsimd's are worse
template <class Level> struct Lanes;

template <class Level>
requires has_batches<Level>
struct Floats<Level> {
  using Own = Lanes<Level>;
  using Lane = typename Batch<float, Level>::register_type;
  using Mask = xsimd::batch_bool<float, Arch<Level>>;
  static constexpr index size = static_cast<index>(Batch<float, Level>::size);
  Batch<float, Level> v;

  INLAY_INLINE Floats() : v(0.0f) {}
  INLAY_INLINE explicit Floats(float value) : v(value) {}
  INLAY_INLINE Floats(Batch<float, Level> lanes) : v(lanes) {}
  INLAY_INLINE Floats(Lane lanes) : v(lanes) {}

  static INLAY_INLINE Floats load(const float* p) { return Batch<float, Level>::load_unaligned(p); }
  template <class T> static INLAY_INLINE Floats load(const T* p) { return Own::load(p); }
  template <class T> static INLAY_INLINE Floats load(const T* p, index n) {
    if constexpr (requires { Own::load(p, n); }) {
      return Own::load(p, n);
    } else {
      return load_part<size>(p, n, [](const T* part) INLAY_INLINE_LAMBDA { return load(part); });
    }
  }
  // Half the lanes from each of two places.
  template <class T>
  requires requires(const T* p) { Own::load_halves(p, p); }
  static INLAY_INLINE Floats load_halves(const T* low, const T* high) { return Own::load_halves(low, high); }

  INLAY_INLINE void store(float* p) const { v.store_unaligned(p); }
  template <class T> INLAY_INLINE void store(T* p) const { Own::store(p, v); }
  template <class T> INLAY_INLINE void store(T* p, index n) const {
    if constexpr (requires { Own::store(p, Lane(v), n); })
      Own::store(p, v, n);
    else
      store_part<size>(p, n, [&](T* part) INLAY_INLINE_LAMBDA { store(part); });
  }
  INLAY_INLINE void store_i8(std::int8_t* p) const { Own::store_i8(p, v); }
  INLAY_INLINE void store_i8(std::int8_t* p, index n) const {
    if constexpr (requires { Own::store_i8(p, Lane(v), n); })
      Own::store_i8(p, v, n);
    else
      store_part<size>(p, n, [&](std::int8_t* part) INLAY_INLINE_LAMBDA { store_i8(part); });
  }
  INLAY_INLINE void store_u8(std::uint8_t* p) const { Own::store_u8(p, v); }
  INLAY_INLINE void store_u8(std::uint8_t* p, index n) const {
    if constexpr (requires { Own::store_u8(p, Lane(v), n); })
      Own::store_u8(p, v, n);
    else
      store_part<size>(p, n, [&](std::uint8_t* part) INLAY_INLINE_LAMBDA { store_u8(part); });
  }
  static INLAY_INLINE Mask first(index n) { return Own::first(n); }
  static INLAY_INLINE bool any(Mask mask) { return xsimd::any(mask); }

  friend INLAY_INLINE Floats operator+(Floats a, Floats b) { return a.v += b.v; }
  friend INLAY_INLINE Floats operator-(Floats a, Floats b) { return a.v -= b.v; }
  friend INLAY_INLINE Floats operator*(Floats a, Floats b) { return a.v *= b.v; }
  friend INLAY_INLINE Floats operator/(Floats a, Floats b) { return a.v /= b.v; }
  friend INLAY_INLINE Mask operator<(Floats a, Floats b) { return a.v < b.v; }
  friend INLAY_INLINE Floats fma(Floats a, Floats b, Floats c) {
    if constexpr (requires { Own::fma(Lane(a.v), Lane(b.v), Lane(c.v)); })
      return Own::fma(a.v, b.v, c.v);
    else
      return xsimd::fma(a.v, b.v, c.v);
  }
  friend INLAY_INLINE Floats min(Floats a, Floats b) { return xsimd::min(a.v, b.v); }
  friend INLAY_INLINE Floats max(Floats a, Floats b) { return xsimd::max(a.v, b.v); }
  friend INLAY_INLINE Floats abs(Floats a) { return xsimd::abs(a.v); }
  friend INLAY_INLINE Floats sqrt(Floats a) { return xsimd::sqrt(a.v); }
  friend INLAY_INLINE Floats round(Floats a) { return xsimd::nearbyint(a.v); }
  friend INLAY_INLINE Floats select(Mask mask, Floats yes, Floats no) { return xsimd::select(mask, yes.v, no.v); }
  friend INLAY_INLINE float reduce_sum(Floats a) {
    if constexpr (requires { Own::reduce_sum(Lane(a.v)); })
      return Own::reduce_sum(a.v);
    else
      return xsimd::hadd(a.v);
  }
  friend INLAY_INLINE float reduce_max(Floats a) { return Own::reduce_max(a.v); }
  friend INLAY_INLINE float reduce_min(Floats a) { return Own::reduce_min(a.v); }
  friend INLAY_INLINE FloatPair<Floats> deinterleave(Floats a, Floats b) { return Own::deinterleave(a.v, b.v); }
  friend INLAY_INLINE FloatPair<Floats> interleave(Floats a, Floats b) { return Own::interleave(a.v, b.v); }
  // p * 2^n, rounded once. A NaN is in p as well.
  friend INLAY_INLINE Floats scale_by_power(Floats p, Floats n) { return Own::scale_by_power(p.v, n.v); }
  // The same for vanishing_power <= n <= 127, where powers that are subnormal may be 0 and the lowest is.
  static constexpr float vanishing_power = Own::vanishing_power;
  friend INLAY_INLINE Floats scale_or_vanish(Floats p, Floats n) { return Own::scale_or_vanish(p.v, n.v); }
};

}  // namespace inlay::simd
