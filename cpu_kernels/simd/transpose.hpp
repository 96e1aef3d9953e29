// transpose(rows): a square of registers, row i lane j <-> row j lane i.
// store_sums(a, b, c, d, p): p[0..3] = the lane sums of four registers, each in a fixed order.
//
// By intrinsics: xsimd 8.1 has no transpose, and its haddp takes as many registers as there are lanes.
#pragma once

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level> INLAY_INLINE void transpose(Floats<Level> (&)[1]) {}

template <class Level>
requires(std::is_same_v<Register<Level>, float>) INLAY_INLINE
    void store_sums(Floats<Level> a, Floats<Level> b, Floats<Level> c, Floats<Level> d, float* p) {
  p[0] = a.v, p[1] = b.v, p[2] = c.v, p[3] = d.v;
}

#if defined(__AVX2__)
namespace detail {
INLAY_INLINE void store_sums(__m256 a, __m256 b, __m256 c, __m256 d, float* p) {
  const auto pairs = [](__m256 x, __m256 y) INLAY_INLINE_LAMBDA {
    return _mm256_castps_pd(_mm256_add_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y)));
  };
  const __m256d ab = pairs(a, b), cd = pairs(c, d);
  const __m256 quarters =
      _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)), _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(quarters), _mm256_extractf128_ps(quarters, 1)));
}
}  // namespace detail

template <class Level>
requires(std::is_same_v<Register<Level>, __m256>) INLAY_INLINE
    void store_sums(Floats<Level> a, Floats<Level> b, Floats<Level> c, Floats<Level> d, float* p) {
  detail::store_sums(a.v, b.v, c.v, d.v, p);
}

template <class Level>
requires(std::is_same_v<Register<Level>, __m256>) INLAY_INLINE void transpose(Floats<Level> (&r)[8]) {
  __m256 pair[8], quad[8];
  INLAY_UNROLL
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(r[i].v, r[i + 1].v);
    pair[i + 1] = _mm256_unpackhi_ps(r[i].v, r[i + 1].v);
  }
  INLAY_UNROLL
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
  INLAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    r[i].v = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
    r[i + 4].v = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
  }
}
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__)
namespace detail {
INLAY_INLINE __m256 halves(__m512 x) { return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)); }
}  // namespace detail

template <class Level>
requires(std::is_same_v<Register<Level>, __m512>) INLAY_INLINE
    void store_sums(Floats<Level> a, Floats<Level> b, Floats<Level> c, Floats<Level> d, float* p) {
  detail::store_sums(detail::halves(a.v), detail::halves(b.v), detail::halves(c.v), detail::halves(d.v), p);
}

template <class Level>
requires(std::is_same_v<Register<Level>, __m512>) INLAY_INLINE void transpose(Floats<Level> (&r)[16]) {
  __m512 a[16], b[16];
  INLAY_UNROLL
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(r[i].v, r[i + 1].v);
    a[i + 1] = _mm512_unpackhi_ps(r[i].v, r[i + 1].v);
  }
  INLAY_UNROLL
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
  // b[4 g + c] holds columns c, c + 4, c + 8, c + 12 of rows 4 g .. 4 g + 3, one a quarter.
  INLAY_UNROLL
  for (int c = 0; c < 4; ++c) {
    const __m512 low = _mm512_shuffle_f32x4(b[c], b[c + 4], 0x88), high = _mm512_shuffle_f32x4(b[c], b[c + 4], 0xdd);
    const __m512 low2 = _mm512_shuffle_f32x4(b[c + 8], b[c + 12], 0x88);
    const __m512 high2 = _mm512_shuffle_f32x4(b[c + 8], b[c + 12], 0xdd);
    r[c].v = _mm512_shuffle_f32x4(low, low2, 0x88);
    r[c + 8].v = _mm512_shuffle_f32x4(low, low2, 0xdd);
    r[c + 4].v = _mm512_shuffle_f32x4(high, high2, 0x88);
    r[c + 12].v = _mm512_shuffle_f32x4(high, high2, 0xdd);
  }
}
#endif

#if defined(__aarch64__)
template <class Level>
requires(std::is_same_v<Register<Level>, float32x4_t>) INLAY_INLINE
    void store_sums(Floats<Level> a, Floats<Level> b, Floats<Level> c, Floats<Level> d, float* p) {
  vst1q_f32(p, vpaddq_f32(vpaddq_f32(a.v, b.v), vpaddq_f32(c.v, d.v)));
}

template <class Level>
requires(std::is_same_v<Register<Level>, float32x4_t>) INLAY_INLINE void transpose(Floats<Level> (&r)[4]) {
  const auto wide = [](float32x4_t x) INLAY_INLINE_LAMBDA { return vreinterpretq_f64_f32(x); };
  const float64x2_t low = wide(vtrn1q_f32(r[0].v, r[1].v)), high = wide(vtrn2q_f32(r[0].v, r[1].v));
  const float64x2_t low2 = wide(vtrn1q_f32(r[2].v, r[3].v)), high2 = wide(vtrn2q_f32(r[2].v, r[3].v));
  r[0] = vreinterpretq_f32_f64(vtrn1q_f64(low, low2));
  r[1] = vreinterpretq_f32_f64(vtrn1q_f64(high, high2));
  r[2] = vreinterpretq_f32_f64(vtrn2q_f64(low, low2));
  r[3] = vreinterpretq_f32_f64(vtrn2q_f64(high, high2));
}
#endif

}  // namespace inlay::simd
