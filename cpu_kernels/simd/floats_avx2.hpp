// Eight lanes: AVX2 with FMA and F16C.
#pragma once

#include "cpu_kernels/simd/floats_batch.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct Lanes<Level> {
  static INLAY_INLINE __m256 load(const f16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static INLAY_INLINE __m256 load(const bf16* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static INLAY_INLINE __m256 load(const std::int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static INLAY_INLINE __m256 load(const std::uint8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static INLAY_INLINE __m256 load(const float* p, index n) { return _mm256_maskload_ps(p, below(n)); }

  static INLAY_INLINE void store(f16* p, __m256 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static INLAY_INLINE void store(bf16* p, __m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0b1000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  // VMASKMOVPS takes 13.7 cycles on Zen 3, where a store takes 1.2.
  static INLAY_INLINE void store(float* p, __m256 v, index n) {
    n == 8 ? _mm256_storeu_ps(p, v) : _mm256_maskstore_ps(p, below(n), v);
  }
  static INLAY_INLINE void store_i8(std::int8_t* p, __m256 v) {
    const __m128i halves = saturated(v, -128, 127);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(halves, halves));
  }
  static INLAY_INLINE void store_u8(std::uint8_t* p, __m256 v) {
    const __m128i halves = saturated(v, 0, 255);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(halves, halves));
  }
  // The mask of a masked load; of floats, the sign decides.
  static INLAY_INLINE __m256i below(index n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static INLAY_INLINE __m256 first(index n) { return _mm256_castsi256_ps(below(n)); }

  // xsimd's takes 2.8 cycles instead of 2.1, 13.0 instead of 10.5 from float to float (Zen 5); at AVX-512 its 15.2 are
  // fewer than GCC's 17.9.
  static INLAY_INLINE float reduce_sum(__m256 v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  static INLAY_INLINE float reduce_max(__m256 v) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }
  static INLAY_INLINE float reduce_min(__m256 v) {
    __m128 x = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_min_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_min_ss(x, _mm_movehdup_ps(x)));
  }
  static INLAY_INLINE FloatPair<Floats<Level>> deinterleave(__m256 a, __m256 b) {
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0b10001000));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0b11011101));
    return {_mm256_castpd_ps(_mm256_permute4x64_pd(even, 0b11011000)),
            _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0b11011000))};
  }
  // Not xsimd's zip_lo and zip_hi: in 8.1 they are the two unpacks, which stay within 128 bits.
  static INLAY_INLINE FloatPair<Floats<Level>> interleave(__m256 a, __m256 b) {
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
  }
  // In two exact factors, so that subnormal results round once.
  static INLAY_INLINE __m256 scale_by_power(__m256 p, __m256 n) {
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
  }
  // The last bits of n + 127 + 1.5 * 2^23 are those of n + 127, the exponent of 2^n; 0 is that of 0.
  static constexpr float vanishing_power = -127;
  static INLAY_INLINE __m256 scale_or_vanish(__m256 p, __m256 n) {
    const __m256i biased = _mm256_castps_si256(_mm256_add_ps(n, _mm256_set1_ps(0x1.8p23f + 127)));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
  }

 private:
  // Eight rounded 16-bit integers. Clamped first: beyond int32 the conversion gives INT_MIN. NaN becomes 0.
  static INLAY_INLINE __m128i saturated(__m256 v, float low, float high) {
    const __m256 number = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
    const __m256i words =
        _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(number, _mm256_set1_ps(low)), _mm256_set1_ps(high)));
    return _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
};

}  // namespace inlay::simd
