// Sixteen lanes: AVX-512 F, BW, DQ, VL; the same registers at the VNNI and BF16 levels.
#pragma once

#include "cpu_kernels/simd/immintrin.hpp"

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct Floats<Level> {
  static constexpr index size = 16;
  using Mask = __mmask16;
  __m512 v;

  INLAY_INLINE Floats() : v(_mm512_setzero_ps()) {}
  INLAY_INLINE explicit Floats(float value) : v(_mm512_set1_ps(value)) {}
  INLAY_INLINE Floats(__m512 lanes) : v(lanes) {}

  static INLAY_INLINE Floats load(const float* p) { return _mm512_loadu_ps(p); }
  static INLAY_INLINE Floats load(const f16* p) { return widen_f16(_mm256_loadu_si256(as256(p))); }
  static INLAY_INLINE Floats load(const bf16* p) { return widen_bf16(_mm256_loadu_si256(as256(p))); }
  static INLAY_INLINE Floats load(const std::int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static INLAY_INLINE Floats load(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  // Eight lanes from each of two places.
  static INLAY_INLINE Floats load_halves(const f16* low, const f16* high) { return widen_f16(join(low, high)); }
  static INLAY_INLINE Floats load_halves(const bf16* low, const bf16* high) { return widen_bf16(join(low, high)); }
  // Masked lanes are not touched: no fault at the end of a page.
  static INLAY_INLINE Floats load(const float* p, index n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static INLAY_INLINE Floats load(const f16* p, index n) { return widen_f16(_mm256_maskz_loadu_epi16(first(n), p)); }
  static INLAY_INLINE Floats load(const bf16* p, index n) { return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p)); }
  static INLAY_INLINE Floats load(const std::int8_t* p, index n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(n), p)));
  }
  static INLAY_INLINE Floats load(const std::uint8_t* p, index n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(n), p)));
  }

  INLAY_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  INLAY_INLINE void store(f16* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16()); }
  INLAY_INLINE void store(bf16* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16()); }
  INLAY_INLINE void store(float* p, index n) const { _mm512_mask_storeu_ps(p, first(n), v); }
  INLAY_INLINE void store(f16* p, index n) const { _mm256_mask_storeu_epi16(p, first(n), narrow_f16()); }
  INLAY_INLINE void store(bf16* p, index n) const { _mm256_mask_storeu_epi16(p, first(n), narrow_bf16()); }
  INLAY_INLINE void store_i8(std::int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(saturated(-128, 127)));
  }
  INLAY_INLINE void store_i8(std::int8_t* p, index n) const {
    _mm512_mask_cvtsepi32_storeu_epi8(p, first(n), saturated(-128, 127));
  }
  INLAY_INLINE void store_u8(std::uint8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(saturated(0, 255)));
  }
  INLAY_INLINE void store_u8(std::uint8_t* p, index n) const {
    _mm512_mask_cvtusepi32_storeu_epi8(p, first(n), saturated(0, 255));
  }
  static INLAY_INLINE Mask first(index n) { return static_cast<Mask>((1u << n) - 1); }
  static INLAY_INLINE bool any(Mask mask) { return mask != 0; }

  friend INLAY_INLINE Floats operator+(Floats a, Floats b) { return _mm512_add_ps(a.v, b.v); }
  friend INLAY_INLINE Floats operator-(Floats a, Floats b) { return _mm512_sub_ps(a.v, b.v); }
  friend INLAY_INLINE Floats operator*(Floats a, Floats b) { return _mm512_mul_ps(a.v, b.v); }
  friend INLAY_INLINE Floats operator/(Floats a, Floats b) { return _mm512_div_ps(a.v, b.v); }
  friend INLAY_INLINE Mask operator<(Floats a, Floats b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
  friend INLAY_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
  friend INLAY_INLINE Floats min(Floats a, Floats b) { return _mm512_min_ps(a.v, b.v); }
  friend INLAY_INLINE Floats max(Floats a, Floats b) { return _mm512_max_ps(a.v, b.v); }
  friend INLAY_INLINE Floats abs(Floats a) { return _mm512_abs_ps(a.v); }
  friend INLAY_INLINE Floats sqrt(Floats a) { return _mm512_sqrt_ps(a.v); }
  friend INLAY_INLINE Floats round(Floats a) {
    return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  friend INLAY_INLINE Floats select(Mask mask, Floats yes, Floats no) {
    return _mm512_mask_blend_ps(mask, no.v, yes.v);
  }
  friend INLAY_INLINE float reduce_sum(Floats a) { return _mm512_reduce_add_ps(a.v); }
  friend INLAY_INLINE float reduce_max(Floats a) { return _mm512_reduce_max_ps(a.v); }
  friend INLAY_INLINE float reduce_min(Floats a) { return _mm512_reduce_min_ps(a.v); }
  friend INLAY_INLINE FloatPair<Floats> deinterleave(Floats a, Floats b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return {_mm512_permutex2var_ps(a.v, even, b.v), _mm512_permutex2var_ps(a.v, odd, b.v)};
  }
  friend INLAY_INLINE FloatPair<Floats> interleave(Floats a, Floats b) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return {_mm512_permutex2var_ps(a.v, low, b.v), _mm512_permutex2var_ps(a.v, high, b.v)};
  }
  friend INLAY_INLINE Floats scale_by_power(Floats p, Floats n) { return _mm512_scalef_ps(p.v, n.v); }

 private:
  template <class T> static INLAY_INLINE const __m256i* as256(const T* p) {
    return reinterpret_cast<const __m256i*>(p);
  }
  template <class T> static INLAY_INLINE __m256i join(const T* low, const T* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
                                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
  }
  static INLAY_INLINE Floats widen_f16(__m256i half) { return _mm512_cvtph_ps(half); }
  static INLAY_INLINE Floats widen_bf16(__m256i half) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  INLAY_INLINE __m256i narrow_f16() const { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // Integers even where VCVTNEPS2BF16 exists: it flushes subnormals to zero.
  INLAY_INLINE __m256i narrow_bf16() const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16));
  }
  // Clamped first: beyond int32 the conversion gives INT_MIN. NaN becomes 0.
  INLAY_INLINE __m512i saturated(float low, float high) const {
    const __m512 number = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(number, _mm512_set1_ps(low)), _mm512_set1_ps(high)));
  }
};

}  // namespace inlay::simd
