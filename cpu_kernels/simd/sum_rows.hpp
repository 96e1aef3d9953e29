// store_row_sums(sum, p, stride): p[h * stride + r] = the sum over the lanes of sum[h][r], each in a
// fixed order. At AVX-512 adds and shuffles of whole registers take 12 operations a head, and 9 more join
// four heads; four horizontal adds took twice as many (f16, 32:8 x 128: a quarter of the whole kernel).
#pragma once

#include "cpu_kernels/simd/transpose.hpp"

namespace inlay::simd {

template <class Level, int Heads, int Rows>
INLAY_INLINE void store_row_sums(const Floats<Level> (&sum)[Heads][Rows], float* p, index stride) {
  INLAY_UNROLL
  for (int h = 0; h < Heads; ++h) INLAY_UNROLL
  for (int r = 0; r < Rows; r += 4)
    store_sums<Level>(sum[h][r], sum[h][r + 1], sum[h][r + 2], sum[h][r + 3], p + h * stride + r);
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

template <class Level>
requires std::is_base_of_v<isa::avx512, Level> INLAY_INLINE void store_row_sums(const Floats<Level> (&sum)[4][4],
                                                                                float* p, index stride) {
  __m512 head[4];
  INLAY_UNROLL
  for (int h = 0; h < 4; ++h) head[h] = detail::quarter_sums(sum[h][0].v, sum[h][1].v, sum[h][2].v, sum[h][3].v);
  const __m512 all =
      detail::add_quarters(detail::add_quarters(head[0], head[1]), detail::add_quarters(head[2], head[3]));
  _mm_storeu_ps(p, _mm512_castps512_ps128(all));
  _mm_storeu_ps(p + stride, _mm512_extractf32x4_ps(all, 1));
  _mm_storeu_ps(p + 2 * stride, _mm512_extractf32x4_ps(all, 2));
  _mm_storeu_ps(p + 3 * stride, _mm512_extractf32x4_ps(all, 3));
}
#endif

}  // namespace inlay::simd
