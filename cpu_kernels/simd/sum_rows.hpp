// store_row_sums(sum, p, stride): p[h * stride + r] = the sum over the lanes of sum[h][r], each in a
// fixed order. At AVX-512 adds and shuffles of whole registers take 9 operations for four sums, and 9
// more join sixteen; horizontal adds took twice as many (f16, 32:8 x 128: a quarter of the whole kernel).
//
// An array of Floats instead of registers cost sixteen stores a tile that nobody read (Zen 4: a third of
// q . K at 64 dims).
#pragma once

#include "cpu_kernels/simd/transpose.hpp"

namespace inlay::simd {

template <class Level, int Heads, int Rows>
requires(!std::is_base_of_v<isa::avx512, Level>) INLAY_INLINE
    void store_row_sums(const Register<Level> (&sum)[Heads][Rows], float* p, index stride) {
  using F = Floats<Level>;
  INLAY_UNROLL
  for (int h = 0; h < Heads; ++h) INLAY_UNROLL
  for (int r = 0; r < Rows; r += 4)
    store_sums<Level>(F(sum[h][r]), F(sum[h][r + 1]), F(sum[h][r + 2]), F(sum[h][r + 3]), p + h * stride + r);
}

#if defined(__AVX512F__)
namespace detail {
// Quarter q of the result: what quarter q of a, b, c and d sums up to.
INLAY_INLINE __m512 quarter_sums(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512d ab = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
  const __m512d cd = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
  return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
}
INLAY_INLINE __m512 add_quarters(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
}  // namespace detail

template <class Level, int Heads, int Rows>
requires(std::is_base_of_v<isa::avx512, Level>) INLAY_INLINE
    void store_row_sums(const Register<Level> (&sum)[Heads][Rows], float* p, index stride) {
  static_assert(Heads * Rows <= 16 && Rows % 4 == 0);
  constexpr int fours = Heads * Rows / 4, per_head = Rows / 4;
  __m512 four[4];
  INLAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int h = (i < fours ? i : 0) / per_head, r = (i < fours ? i : 0) % per_head * 4;
    four[i] = detail::quarter_sums(sum[h][r], sum[h][r + 1], sum[h][r + 2], sum[h][r + 3]);
  }
  const __m512 all =
      detail::add_quarters(detail::add_quarters(four[0], four[1]), detail::add_quarters(four[2], four[3]));
  const auto at = [&](int i) { return p + i / per_head * stride + i % per_head * 4; };
  _mm_storeu_ps(at(0), _mm512_castps512_ps128(all));
  if constexpr (fours > 1) _mm_storeu_ps(at(1), _mm512_extractf32x4_ps(all, 1));
  if constexpr (fours > 2) _mm_storeu_ps(at(2), _mm512_extractf32x4_ps(all, 2));
  if constexpr (fours > 3) _mm_storeu_ps(at(3), _mm512_extractf32x4_ps(all, 3));
}
#endif

}  // namespace inlay::simd
