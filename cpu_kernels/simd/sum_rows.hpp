// RowSums: the sums over the lanes of a block of Heads x Rows registers, each in a fixed order.
//
//   take(sum, p)     p[h * stride + r] = the sum over the lanes of sum[h][r], by and by
//   advance<I>()     stage I of `stages` of that; all of them before the next take
//
// At AVX-512 eight sums take 12 shuffles and adds in a chain of 25 cycles. In one go behind the block's
// multiplications they fill the scheduler, and the next block's wait behind them: 40 cycles for each
// sixteen sums. So they go between the multiplications of the next block (Zen 4, f16, 4 heads of 128: 5.4 -> 4.6 cycles
// for 16 elements, of which fma takes 4). Kept in memory meanwhile instead of registers: 5.6. Half the shuffles,
// a blend for each other one: 4.8, and 5.8 instead of 5.6 at 64 dims.
//
// An array of Floats instead of registers cost sixteen stores a tile that nobody read (Zen 4: a third of
// q . K at 64 dims).
#pragma once

#include "cpu_kernels/simd/transpose.hpp"
#include "cpu_kernels/simd/unroll.hpp"

namespace inlay::simd {

template <class Level, int Heads, int Rows> class RowSums {
  using F = Floats<Level>;

 public:
  static constexpr int stages = 0;
  INLAY_INLINE RowSums(float*, index stride) : stride_(stride) {}
  INLAY_INLINE void take(const Register<Level> (&sum)[Heads][Rows], float* p) {
    INLAY_UNROLL
    for (int h = 0; h < Heads; ++h) INLAY_UNROLL
    for (int r = 0; r < Rows; r += 4)
      store_sums<Level>(F(sum[h][r]), F(sum[h][r + 1]), F(sum[h][r + 2]), F(sum[h][r + 3]), p + h * stride_ + r);
  }
  template <int> INLAY_INLINE void advance() {}

 private:
  index stride_;
};

#if defined(__AVX512F__)
namespace detail {
// Quarter q of the result: what quarter q of a, b, c and d sums up to.
INLAY_INLINE __m512 quarter_sums(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512d ab = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
  const __m512d cd = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
  return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
}
// Quarters | a | . | b | . |: what the four of a, and of b, sum up to.
INLAY_INLINE __m512 add_quarters(__m512 a, __m512 b) {
  const __m512 half = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  return _mm512_add_ps(half, _mm512_shuffle_f32x4(half, half, 0xb1));
}
}  // namespace detail

template <class Level, int Heads, int Rows>
requires(std::is_base_of_v<isa::avx512, Level>) class RowSums<Level, Heads, Rows> {
  static constexpr int count = Heads * Rows;
  static_assert(Rows == 2 ? count <= 8 : count == 8 && Rows % 4 == 0, "two quarters are stored whole");

 public:
  static constexpr int stages = 3;
  // Until the first take, zeros go to p.
  INLAY_INLINE RowSums(float* p, index stride) : to_(p), stride_(stride) {
    INLAY_UNROLL
    for (int i = 0; i < count; ++i) sum_[i] = _mm512_setzero_ps();
  }
  INLAY_INLINE void take(const Register<Level> (&sum)[Heads][Rows], float* p) {
    INLAY_UNROLL
    for (int i = 0; i < count; ++i) sum_[i] = sum[i / Rows][i % Rows];
    to_ = p;
  }
  template <int I> INLAY_INLINE void advance() {
    if constexpr (I == 0) low_ = detail::quarter_sums(sum_[0], sum_[1], sum_[2], sum_[3]);
    if constexpr (I == 1) high_ = detail::quarter_sums(sum_[at(4)], sum_[at(5)], sum_[at(6)], sum_[at(7)]);
    if constexpr (I == 2) store(detail::add_quarters(low_, high_));
  }

 private:
  static constexpr int at(int i) { return i < count ? i : count - 1; }
  INLAY_INLINE void store(__m512 all) const {
    const __m128 low = _mm512_castps512_ps128(all), high = _mm512_extractf32x4_ps(all, 2);
    if constexpr (Rows == 2) {
      store_twos(low, high);
    } else {
      _mm_storeu_ps(to_, low);
      _mm_storeu_ps(to_ + (Rows == 4 ? stride_ : 4), high);
    }
  }
  // Two rows of each head.
  INLAY_INLINE void store_twos(__m128 low, __m128 high) const {
    const __m128 two[2] = {low, high};
    INLAY_UNROLL
    for (int h = 0; h < Heads; ++h) {
      auto* const p = reinterpret_cast<__m64*>(to_ + h * stride_);
      if (h % 2 == 0)
        _mm_storel_pi(p, two[h / 2]);
      else
        _mm_storeh_pi(p, two[h / 2]);
    }
  }

  __m512 sum_[count], low_, high_;
  float* to_;
  index stride_;
};
#endif

}  // namespace inlay::simd
