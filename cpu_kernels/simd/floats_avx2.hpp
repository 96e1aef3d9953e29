// Eight lanes: AVX2 with FMA and F16C.
#pragma once

#include "cpu_kernels/simd/immintrin.hpp"

#include <cstring>

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct Floats<Level> {
  static constexpr index size = 8;
  using Mask = __m256;
  __m256 v;

  INLAY_INLINE Floats() : v(_mm256_setzero_ps()) {}
  INLAY_INLINE explicit Floats(float value) : v(_mm256_set1_ps(value)) {}
  INLAY_INLINE Floats(__m256 lanes) : v(lanes) {}

  static INLAY_INLINE Floats load(const float* p) { return _mm256_loadu_ps(p); }
  static INLAY_INLINE Floats load(const f16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static INLAY_INLINE Floats load(const bf16* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static INLAY_INLINE Floats load(const std::int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static INLAY_INLINE Floats load(const std::uint8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static INLAY_INLINE Floats load(const float* p, index n) { return _mm256_maskload_ps(p, lanes_below(n)); }
  template <class T> static INLAY_INLINE Floats load(const T* p, index n) {
    T part[size] = {};
    std::memcpy(part, p, static_cast<std::size_t>(n) * sizeof(T));
    return load(part);
  }

  INLAY_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
  INLAY_INLINE void store(f16* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  INLAY_INLINE void store(bf16* p) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0b1000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  INLAY_INLINE void store(float* p, index n) const { _mm256_maskstore_ps(p, lanes_below(n), v); }
  template <class T> INLAY_INLINE void store(T* p, index n) const {
    T part[size];
    store(part);
    std::memcpy(p, part, static_cast<std::size_t>(n) * sizeof(T));
  }
  INLAY_INLINE void store_i8(std::int8_t* p) const {
    const __m128i halves = saturated(-128, 127);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(halves, halves));
  }
  INLAY_INLINE void store_i8(std::int8_t* p, index n) const {
    std::int8_t part[size];
    store_i8(part);
    std::memcpy(p, part, static_cast<std::size_t>(n));
  }
  INLAY_INLINE void store_u8(std::uint8_t* p) const {
    const __m128i halves = saturated(0, 255);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(halves, halves));
  }
  INLAY_INLINE void store_u8(std::uint8_t* p, index n) const {
    std::uint8_t part[size];
    store_u8(part);
    std::memcpy(p, part, static_cast<std::size_t>(n));
  }
  static INLAY_INLINE Mask first(index n) { return _mm256_castsi256_ps(lanes_below(n)); }
  static INLAY_INLINE bool any(Mask mask) { return _mm256_movemask_ps(mask) != 0; }

  friend INLAY_INLINE Floats operator+(Floats a, Floats b) { return _mm256_add_ps(a.v, b.v); }
  friend INLAY_INLINE Floats operator-(Floats a, Floats b) { return _mm256_sub_ps(a.v, b.v); }
  friend INLAY_INLINE Floats operator*(Floats a, Floats b) { return _mm256_mul_ps(a.v, b.v); }
  friend INLAY_INLINE Floats operator/(Floats a, Floats b) { return _mm256_div_ps(a.v, b.v); }
  friend INLAY_INLINE Mask operator<(Floats a, Floats b) { return _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ); }
  friend INLAY_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
  friend INLAY_INLINE Floats min(Floats a, Floats b) { return _mm256_min_ps(a.v, b.v); }
  friend INLAY_INLINE Floats max(Floats a, Floats b) { return _mm256_max_ps(a.v, b.v); }
  friend INLAY_INLINE Floats abs(Floats a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v); }
  friend INLAY_INLINE Floats sqrt(Floats a) { return _mm256_sqrt_ps(a.v); }
  friend INLAY_INLINE Floats round(Floats a) {
    return _mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  friend INLAY_INLINE Floats select(Mask mask, Floats yes, Floats no) { return _mm256_blendv_ps(no.v, yes.v, mask); }
  friend INLAY_INLINE float reduce_sum(Floats a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  friend INLAY_INLINE float reduce_max(Floats a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }
  friend INLAY_INLINE float reduce_min(Floats a) {
    __m128 x = _mm_min_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    x = _mm_min_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_min_ss(x, _mm_movehdup_ps(x)));
  }
  friend INLAY_INLINE FloatPair<Floats> deinterleave(Floats a, Floats b) {
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a.v, b.v, 0b10001000));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(a.v, b.v, 0b11011101));
    return {_mm256_castpd_ps(_mm256_permute4x64_pd(even, 0b11011000)),
            _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0b11011000))};
  }
  friend INLAY_INLINE FloatPair<Floats> interleave(Floats a, Floats b) {
    const __m256 low = _mm256_unpacklo_ps(a.v, b.v), high = _mm256_unpackhi_ps(a.v, b.v);
    return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
  }
  // p * 2^n, in two exact factors so that subnormal results round once. A NaN is in p as well.
  friend INLAY_INLINE Floats scale_by_power(Floats p, Floats n) {
    const __m256i whole = _mm256_cvtps_epi32(n.v), half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p.v, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
  }

 private:
  // Eight rounded 16-bit integers. Clamped first: beyond int32 the conversion gives INT_MIN. NaN becomes 0.
  INLAY_INLINE __m128i saturated(float low, float high) const {
    const __m256 number = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
    const __m256i words =
        _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(number, _mm256_set1_ps(low)), _mm256_set1_ps(high)));
    return _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
  static INLAY_INLINE __m256i lanes_below(index n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace inlay::simd
