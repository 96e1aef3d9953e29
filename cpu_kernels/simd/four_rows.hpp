// Four rows side by side in a register, four elements of each, for sums over elements: they end in the four lanes of a
// quarter instead of in all sixteen, which leaves a third of the shuffles.
//
//   a chunk, sixteen bytes of rows a b c d         registers of four elements, f16:
//     a0 a1 .. a7                                    to[0]  | a0 .. a3 | b0 .. b3 | c0 .. c3 | d0 .. d3 |
//     b0 b1 .. b7                                    to[1]  | a4 .. a7 | b4 .. b7 | c4 .. c7 | d4 .. d7 |
//
//   FourRows<Level, T>::load(a, b, c, d, to)       a chunk: f32 makes one register, f16 and bf16 two, int8 four
//   spread_four<Level>(x, y)                       what meets them: x[0 .. 4) four times
//   store_quarters<Level, Count>(sums, to)         to(i)[r] = the sum of quarter r of register i of Count, in one order
//
// AVX-512 only: of two rows in a register of AVX2 as many shuffles would be left as store_sums takes.
#pragma once

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level> inline constexpr bool has_four_rows = std::is_base_of_v<isa::avx512, Level>;

template <class Level, class T> struct FourRows;
template <class Level> void spread_four(const float* x, float* y);
template <class Level, int Count, class To> void store_quarters(const float* sums, To&& to);

#if defined(__AVX512F__) && defined(__AVX512DQ__)
namespace detail {
template <class T> INLAY_INLINE __m128i chunk_of(const T* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
// The second half comes from memory as an operand: loads and blends are free beside the shuffles of FourRows.
template <class T> INLAY_INLINE __m256i chunks_of(const T* low, const T* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(chunk_of(low)), chunk_of(high), 1);
}
}  // namespace detail

template <class Level>
requires(has_four_rows<Level>) struct FourRows<Level, float> {
  static constexpr int registers = 1;
  static INLAY_INLINE void load(const float* a, const float* b, const float* c, const float* d,
                                Register<Level> (&to)[registers]) {
    to[0] = _mm512_castsi512_ps(
        _mm512_inserti64x4(_mm512_castsi256_si512(detail::chunks_of(a, b)), detail::chunks_of(c, d), 1));
  }
};

template <class Level, class T>
requires(has_four_rows<Level> && sizeof(T) == 2) struct FourRows<Level, T> {
  static constexpr int registers = 2;
  static INLAY_INLINE void load(const T* a, const T* b, const T* c, const T* d, Register<Level> (&to)[registers]) {
    const __m256i ac = detail::chunks_of(a, c), bd = detail::chunks_of(b, d);
    to[0] = widen(_mm256_unpacklo_epi64(ac, bd));
    to[1] = widen(_mm256_unpackhi_epi64(ac, bd));
  }

 private:
  static INLAY_INLINE __m512 widen(__m256i x) {
    if constexpr (std::is_same_v<T, f16>)
      return _mm512_cvtph_ps(x);
    else
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
};

template <class Level>
requires(has_four_rows<Level>) struct FourRows<Level, std::int8_t> {
  static constexpr int registers = 4;
  static INLAY_INLINE void load(const std::int8_t* a, const std::int8_t* b, const std::int8_t* c, const std::int8_t* d,
                                Register<Level> (&to)[registers]) {
    const __m128i x[4] = {detail::chunk_of(a), detail::chunk_of(b), detail::chunk_of(c), detail::chunk_of(d)};
    const __m128i ab = _mm_unpacklo_epi32(x[0], x[1]), ab_high = _mm_unpackhi_epi32(x[0], x[1]);
    const __m128i cd = _mm_unpacklo_epi32(x[2], x[3]), cd_high = _mm_unpackhi_epi32(x[2], x[3]);
    to[0] = widen(_mm_unpacklo_epi64(ab, cd));
    to[1] = widen(_mm_unpackhi_epi64(ab, cd));
    to[2] = widen(_mm_unpacklo_epi64(ab_high, cd_high));
    to[3] = widen(_mm_unpackhi_epi64(ab_high, cd_high));
  }

 private:
  static INLAY_INLINE __m512 widen(__m128i x) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x)); }
};

template <class Level> INLAY_INLINE void spread_four(const float* x, float* y) {
  _mm512_storeu_ps(y, _mm512_broadcast_f32x4(_mm_loadu_ps(x)));
}

template <class Level, int Count, class To> INLAY_INLINE void store_quarters(const float* sums, To&& to) {
  const auto sum = [=](int i) INLAY_INLINE_LAMBDA { return _mm512_loadu_ps(sums + 16 * i); };
  const auto pairs = [](__m512 a, __m512 b) INLAY_INLINE_LAMBDA {
    return _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
  };
  const __m512d low = pairs(sum(0), sum(1)), high = pairs(sum(2), sum(3));
  const __m512 by_row =
      _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(low, high)), _mm512_castpd_ps(_mm512_unpackhi_pd(low, high)));
  const __m512i transposed = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512 all = _mm512_permutexvar_ps(transposed, by_row);
  _mm_storeu_ps(to(0), _mm512_castps512_ps128(all));
  if constexpr (Count > 1) _mm_storeu_ps(to(1), _mm512_extractf32x4_ps(all, 1));
  if constexpr (Count > 2) _mm_storeu_ps(to(2), _mm512_extractf32x4_ps(all, 2));
  if constexpr (Count > 3) _mm_storeu_ps(to(3), _mm512_extractf32x4_ps(all, 3));
}
#endif

}  // namespace inlay::simd
