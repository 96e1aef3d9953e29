// Four lanes: Advanced SIMD of Armv8-A, at every neon level.
#pragma once

#include <cstring>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/four_bytes.hpp"
#include "cpu_kernels/simd/intrinsics.hpp"
#include "cpu_kernels/simd/part.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::neon, Level>
struct Floats<Level> {
  static constexpr index size = 4;
  using Lane = float32x4_t;
  using Mask = uint32x4_t;
  float32x4_t v;

  INLAY_INLINE Floats() : v(vdupq_n_f32(0)) {}
  INLAY_INLINE explicit Floats(float value) : v(vdupq_n_f32(value)) {}
  INLAY_INLINE Floats(float32x4_t lanes) : v(lanes) {}

  static INLAY_INLINE Floats load(const float* p) { return vld1q_f32(p); }
  static INLAY_INLINE Floats load(const f16* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p))));
  }
  static INLAY_INLINE Floats load(const bf16* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p)), 16));
  }
  static INLAY_INLINE Floats load(const std::int8_t* p) {
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four_bytes(p)))))));
  }
  static INLAY_INLINE Floats load(const std::uint8_t* p) {
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_s32(vdup_n_s32(four_bytes(p)))))));
  }
  template <class T> static INLAY_INLINE Floats load(const T* p, index n) {
    return load_part<size>(p, n, [](const T* part) INLAY_INLINE_LAMBDA { return load(part); });
  }

  INLAY_INLINE void store(float* p) const { vst1q_f32(p, v); }
  INLAY_INLINE void store(f16* p) const {
    vst1_u16(reinterpret_cast<std::uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
  INLAY_INLINE void store(bf16* p) const {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vst1_u16(reinterpret_cast<std::uint16_t*>(p), vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet), 16));
  }
  // VCVTN saturates to int32 and makes 0 of NaN; what narrows saturates again.
  INLAY_INLINE void store_i8(std::int8_t* p) const {
    const int16x4_t half = vqmovn_s32(vcvtnq_s32_f32(v));
    const std::uint32_t bytes = vget_lane_u32(vreinterpret_u32_s8(vqmovn_s16(vcombine_s16(half, half))), 0);
    std::memcpy(p, &bytes, sizeof bytes);
  }
  INLAY_INLINE void store_u8(std::uint8_t* p) const {
    const uint16x4_t half = vqmovun_s32(vcvtnq_s32_f32(v));
    const std::uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(vqmovn_u16(vcombine_u16(half, half))), 0);
    std::memcpy(p, &bytes, sizeof bytes);
  }
  template <class T> INLAY_INLINE void store(T* p, index n) const {
    store_part<size>(p, n, [&](T* part) INLAY_INLINE_LAMBDA { store(part); });
  }
  INLAY_INLINE void store_i8(std::int8_t* p, index n) const {
    store_part<size>(p, n, [&](std::int8_t* part) INLAY_INLINE_LAMBDA { store_i8(part); });
  }
  INLAY_INLINE void store_u8(std::uint8_t* p, index n) const {
    store_part<size>(p, n, [&](std::uint8_t* part) INLAY_INLINE_LAMBDA { store_u8(part); });
  }
  static INLAY_INLINE Mask first(index n) {
    const uint32x4_t place = {0, 1, 2, 3};
    return vcltq_u32(place, vdupq_n_u32(static_cast<std::uint32_t>(n)));
  }
  static INLAY_INLINE bool any(Mask mask) { return vmaxvq_u32(mask) != 0; }

  friend INLAY_INLINE Floats operator+(Floats a, Floats b) { return vaddq_f32(a.v, b.v); }
  friend INLAY_INLINE Floats operator-(Floats a, Floats b) { return vsubq_f32(a.v, b.v); }
  friend INLAY_INLINE Floats operator*(Floats a, Floats b) { return vmulq_f32(a.v, b.v); }
  friend INLAY_INLINE Floats operator/(Floats a, Floats b) { return vdivq_f32(a.v, b.v); }
  friend INLAY_INLINE Mask operator<(Floats a, Floats b) { return vcltq_f32(a.v, b.v); }
  friend INLAY_INLINE Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c.v, a.v, b.v); }
  // FMIN and FMAX return the NaN of either operand.
  friend INLAY_INLINE Floats min(Floats a, Floats b) { return select(a < b, a, b); }
  friend INLAY_INLINE Floats max(Floats a, Floats b) { return select(b < a, a, b); }
  friend INLAY_INLINE Floats abs(Floats a) { return vabsq_f32(a.v); }
  friend INLAY_INLINE Floats sqrt(Floats a) { return vsqrtq_f32(a.v); }
  friend INLAY_INLINE Floats round(Floats a) { return vrndnq_f32(a.v); }
  friend INLAY_INLINE Floats select(Mask mask, Floats yes, Floats no) { return vbslq_f32(mask, yes.v, no.v); }
  friend INLAY_INLINE float reduce_sum(Floats a) { return vaddvq_f32(a.v); }
  friend INLAY_INLINE float reduce_max(Floats a) {
    a = max(a, vextq_f32(a.v, a.v, 2));
    return vgetq_lane_f32(max(a, vextq_f32(a.v, a.v, 1)).v, 0);
  }
  friend INLAY_INLINE float reduce_min(Floats a) {
    a = min(a, vextq_f32(a.v, a.v, 2));
    return vgetq_lane_f32(min(a, vextq_f32(a.v, a.v, 1)).v, 0);
  }
  friend INLAY_INLINE FloatPair<Floats> deinterleave(Floats a, Floats b) {
    return {vuzp1q_f32(a.v, b.v), vuzp2q_f32(a.v, b.v)};
  }
  friend INLAY_INLINE FloatPair<Floats> interleave(Floats a, Floats b) {
    return {vzip1q_f32(a.v, b.v), vzip2q_f32(a.v, b.v)};
  }
  // p * 2^n, in two exact factors so that subnormal results round once. A NaN is in p as well.
  friend INLAY_INLINE Floats scale_by_power(Floats p, Floats n) {
    const int32x4_t whole = vcvtq_s32_f32(n.v), half = vshrq_n_s32(whole, 1), bias = vdupq_n_s32(127);
    const int32x4_t a = vshlq_n_s32(vaddq_s32(half, bias), 23);
    const int32x4_t b = vshlq_n_s32(vaddq_s32(vsubq_s32(whole, half), bias), 23);
    return vmulq_f32(vmulq_f32(p.v, vreinterpretq_f32_s32(a)), vreinterpretq_f32_s32(b));
  }
  static constexpr float vanishing_power = -127;
  friend INLAY_INLINE Floats scale_or_vanish(Floats p, Floats n) {
    const int32x4_t exponent = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n.v), vdupq_n_s32(127)), 23);
    return vmulq_f32(p.v, vreinterpretq_f32_s32(exponent));
  }
};

}  // namespace inlay::simd
