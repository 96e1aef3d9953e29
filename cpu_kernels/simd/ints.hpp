// Ints<Level>: int32 lanes, as many as Floats<Level> has. Arithmetic wraps.
//
//   Ints(), Ints(s)        zero, broadcast
//   load(p), load(p, n)    n: the first n lanes, rest 0
//   store(p), store(p, n)
//   a - b, a * b           modulo 2^32
//   floats()               rounded to nearest even
//   byte(j)                byte j of each lane, its sign extended
#pragma once

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/part.hpp"

namespace inlay::simd {

template <class Level> struct Ints;

template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct Ints<Level> {
  std::int32_t v;
  INLAY_INLINE Ints() : v(0) {}
  INLAY_INLINE explicit Ints(std::int32_t value) : v(value) {}
  static INLAY_INLINE Ints load(const std::int32_t* p) { return Ints(*p); }
  static INLAY_INLINE Ints load(const std::int32_t* p, index) { return Ints(*p); }
  INLAY_INLINE void store(std::int32_t* p) const { *p = v; }
  INLAY_INLINE void store(std::int32_t* p, index) const { *p = v; }
  INLAY_INLINE Floats<Level> floats() const { return Floats<Level>(static_cast<float>(v)); }
  INLAY_INLINE Ints byte(int j) const { return Ints(static_cast<std::int8_t>(v >> 8 * j)); }
  friend INLAY_INLINE Ints operator-(Ints a, Ints b) {
    return Ints(static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v) - static_cast<std::uint32_t>(b.v)));
  }
  friend INLAY_INLINE Ints operator*(Ints a, Ints b) {
    return Ints(static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v) * static_cast<std::uint32_t>(b.v)));
  }
};

#if defined(INLAY_BATCHES)
template <class Level>
requires has_batches<Level>
struct Ints<Level> {
  using Lanes = Batch<std::int32_t, Level>;
  Lanes v;
  INLAY_INLINE Ints() : v(0) {}
  INLAY_INLINE explicit Ints(std::int32_t value) : v(value) {}
  INLAY_INLINE Ints(Lanes lanes) : v(lanes) {}
  static INLAY_INLINE Ints load(const std::int32_t* p) { return Lanes::load_unaligned(p); }
  // The bits of some lanes move as those of floats do.
  static INLAY_INLINE Ints load(const std::int32_t* p, index n) {
    return xsimd::bitwise_cast<Lanes>(Floats<Level>::load(reinterpret_cast<const float*>(p), n).v);
  }
  INLAY_INLINE void store(std::int32_t* p) const { v.store_unaligned(p); }
  INLAY_INLINE void store(std::int32_t* p, index n) const {
    Floats<Level>(xsimd::bitwise_cast<Batch<float, Level>>(v)).store(reinterpret_cast<float*>(p), n);
  }
  INLAY_INLINE Floats<Level> floats() const { return xsimd::to_float(v); }
  INLAY_INLINE Ints byte(int j) const {
    Lanes top = v;
    top <<= 24 - 8 * j;
    return top >>= 24;
  }
  friend INLAY_INLINE Ints operator-(Ints a, Ints b) { return a.v -= b.v; }
  friend INLAY_INLINE Ints operator*(Ints a, Ints b) { return a.v *= b.v; }
};
#endif

#if defined(__aarch64__)
template <class Level>
requires std::is_base_of_v<isa::neon, Level>
struct Ints<Level> {
  int32x4_t v;
  INLAY_INLINE Ints() : v(vdupq_n_s32(0)) {}
  INLAY_INLINE explicit Ints(std::int32_t value) : v(vdupq_n_s32(value)) {}
  INLAY_INLINE Ints(int32x4_t lanes) : v(lanes) {}
  static INLAY_INLINE Ints load(const std::int32_t* p) { return vld1q_s32(p); }
  static INLAY_INLINE Ints load(const std::int32_t* p, index n) {
    return load_part<4>(p, n, [](const std::int32_t* part) INLAY_INLINE_LAMBDA { return load(part); });
  }
  INLAY_INLINE void store(std::int32_t* p) const { vst1q_s32(p, v); }
  INLAY_INLINE void store(std::int32_t* p, index n) const {
    store_part<4>(p, n, [&](std::int32_t* part) INLAY_INLINE_LAMBDA { store(part); });
  }
  INLAY_INLINE Floats<Level> floats() const { return vcvtq_f32_s32(v); }
  INLAY_INLINE Ints byte(int j) const { return vshrq_n_s32(vshlq_s32(v, vdupq_n_s32(24 - 8 * j)), 24); }
  friend INLAY_INLINE Ints operator-(Ints a, Ints b) { return vsubq_s32(a.v, b.v); }
  friend INLAY_INLINE Ints operator*(Ints a, Ints b) { return vmulq_s32(a.v, b.v); }
};
#endif

}  // namespace inlay::simd
