// Sixteen lanes: AVX-512 F, BW, DQ, VL; the same registers at the VNNI and BF16 levels.
#pragma once

#include "cpu_kernels/simd/floats_batch.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct Lanes<Level> {
  static INLAY_INLINE __m512 load(const f16* p) { return widen_f16(_mm256_loadu_si256(as256(p))); }
  static INLAY_INLINE __m512 load(const bf16* p) { return widen_bf16(_mm256_loadu_si256(as256(p))); }
  static INLAY_INLINE __m512 load(const std::int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static INLAY_INLINE __m512 load(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static INLAY_INLINE __m512 load_halves(const f16* low, const f16* high) { return widen_f16(join(low, high)); }
  static INLAY_INLINE __m512 load_halves(const bf16* low, const bf16* high) { return widen_bf16(join(low, high)); }
  // Masked lanes are not touched: no fault at the end of a page.
  static INLAY_INLINE __m512 load(const float* p, index n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static INLAY_INLINE __m512 load(const f16* p, index n) { return widen_f16(_mm256_maskz_loadu_epi16(first(n), p)); }
  static INLAY_INLINE __m512 load(const bf16* p, index n) { return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p)); }
  static INLAY_INLINE __m512 load(const std::int8_t* p, index n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first(n), p)));
  }
  static INLAY_INLINE __m512 load(const std::uint8_t* p, index n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(n), p)));
  }

  static INLAY_INLINE void store(f16* p, __m512 v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(v));
  }
  static INLAY_INLINE void store(bf16* p, __m512 v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(v));
  }
  static INLAY_INLINE void store(float* p, __m512 v, index n) { _mm512_mask_storeu_ps(p, first(n), v); }
  static INLAY_INLINE void store(f16* p, __m512 v, index n) { _mm256_mask_storeu_epi16(p, first(n), narrow_f16(v)); }
  static INLAY_INLINE void store(bf16* p, __m512 v, index n) { _mm256_mask_storeu_epi16(p, first(n), narrow_bf16(v)); }
  static INLAY_INLINE void store_i8(std::int8_t* p, __m512 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(up_to_127(v)));
  }
  static INLAY_INLINE void store_i8(std::int8_t* p, __m512 v, index n) {
    _mm512_mask_cvtsepi32_storeu_epi8(p, first(n), up_to_127(v));
  }
  static INLAY_INLINE void store_u8(std::uint8_t* p, __m512 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(from_0_to_255(v)));
  }
  static INLAY_INLINE void store_u8(std::uint8_t* p, __m512 v, index n) {
    _mm512_mask_cvtusepi32_storeu_epi8(p, first(n), from_0_to_255(v));
  }
  static INLAY_INLINE __mmask16 first(index n) { return static_cast<__mmask16>((1u << n) - 1); }

  // xsimd 8.1 multiplies and adds here: two roundings, twice the instructions.
  static INLAY_INLINE __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
  static INLAY_INLINE float reduce_max(__m512 v) { return _mm512_reduce_max_ps(v); }
  static INLAY_INLINE float reduce_min(__m512 v) { return _mm512_reduce_min_ps(v); }
  static INLAY_INLINE FloatPair<Floats<Level>> deinterleave(__m512 a, __m512 b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return {_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b)};
  }
  // Not xsimd's zip_lo and zip_hi: in 8.1 they are unpacks, which stay within 128 bits, and two more permutations of
  // two registers would have to follow where two of them do it.
  static INLAY_INLINE FloatPair<Floats<Level>> interleave(__m512 a, __m512 b) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return {_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b)};
  }
  static INLAY_INLINE __m512 scale_by_power(__m512 p, __m512 n) { return _mm512_scalef_ps(p, n); }
  // Not as for eight lanes: one instruction for two, which keep other units busy (48.8 cycles for 64 lanes of
  // softmax_tile, 55.6 with them; Zen 4).
  static constexpr float vanishing_power = -151;
  static INLAY_INLINE __m512 scale_or_vanish(__m512 p, __m512 n) { return _mm512_scalef_ps(p, n); }

 private:
  template <class T> static INLAY_INLINE const __m256i* as256(const T* p) {
    return reinterpret_cast<const __m256i*>(p);
  }
  template <class T> static INLAY_INLINE __m256i join(const T* low, const T* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
                                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
  }
  static INLAY_INLINE __m512 widen_f16(__m256i half) { return _mm512_cvtph_ps(half); }
  static INLAY_INLINE __m512 widen_bf16(__m256i half) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static INLAY_INLINE __m256i narrow_f16(__m512 v) {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // Integers even where VCVTNEPS2BF16 exists: it flushes subnormals to zero.
  static INLAY_INLINE __m256i narrow_bf16(__m512 v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16));
  }
  // NaN becomes 0. Clamped from above only: what lies below int32 becomes INT_MIN, and the narrowing saturates it.
  static INLAY_INLINE __m512i up_to_127(__m512 v) {
    const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    return _mm512_maskz_cvtps_epi32(number, _mm512_min_ps(v, _mm512_set1_ps(127)));
  }
  // VMAXPS gives the second operand where one is NaN.
  static INLAY_INLINE __m512i from_0_to_255(__m512 v) {
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(v, _mm512_setzero_ps()), _mm512_set1_ps(255)));
  }
};

}  // namespace inlay::simd
