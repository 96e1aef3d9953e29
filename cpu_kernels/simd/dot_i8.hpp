// DotI8<Level>: the exact dot product of 8-bit integers, four at a time, for channels side by side.
//
//   Input                   what an activation is stored as: u8 or s8 where the dot product takes it so, else i16
//   input_offset(unsigned)  what a signed or an unsigned activation is stored with: q + 128 fits u8; 0 for i16
//   channels                of one Sums: a panel of 16, or half of one
//   Weights::load(p)        channels x 4 inputs, as linear_int8 packs them
//   Inputs::load(p)         4 inputs of one token, seen by every channel
//   Sums                    int32 for each channel: dot(sums, weights, inputs), store(p), a + b
//   rows, panels, sums      the register tile: at most rows tokens by panels, and `sums` Sums at once
//   in_flight               Sums that hide the latency of dot
//   chains                  Sums at once for the peak (cpu_kernels/support/limits.hpp)
//
// Exact means: no 16-bit sum ever saturates, not even -128 * -128 + -128 * -128. Without VNNI the
// bytes are therefore widened to 16 bits for VPMADDWD. Its two rivals cost no less per 64 products:
// VPMADDUBSW on |x| and sign(w, x) needs w > -128 and a VPSIGNB of its own (sign, maddubs, madd, add);
// VPMADDUBSW on the nibbles of x + 128 sums eight groups in 16 bits, at two maddubs and two adds.
#pragma once

#include "cpu_kernels/simd/intrinsics.hpp"

#include <concepts>
#include <cstring>
#include <type_traits>

#include <inlay/core/dtype.hpp>
#include <inlay/core/isa.hpp>

#include "cpu_kernels/simd/four_bytes.hpp"
#include "cpu_kernels/simd/inline.hpp"
#include "cpu_kernels/simd/unroll.hpp"

namespace inlay::simd {

template <class Level> struct DotI8;

template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct DotI8<Level> {
  using Input = std::int16_t;
  static constexpr int input_offset(bool) { return 0; }
  static constexpr int channels = 16, rows = 2, panels = 1, sums = 2, in_flight = 1, chains = 1;

  struct Weights {
    const std::int8_t* line;
    static INLAY_INLINE Weights load(const std::int8_t* p) { return {p}; }
  };
  struct Inputs {
    std::int16_t v[4];
    static INLAY_INLINE Inputs load(const Input* p) { return {{p[0], p[1], p[2], p[3]}}; }
    INLAY_INLINE void hide() { asm volatile("" : "+m"(v)); }
  };
  struct Sums {
    std::int32_t v[16] = {};
    INLAY_INLINE void store(std::int32_t* p) const { std::memcpy(p, v, sizeof v); }
    friend INLAY_INLINE Sums operator+(Sums a, const Sums& b) {
      for (int c = 0; c < 16; ++c) a.v[c] += b.v[c];
      return a;
    }
    friend INLAY_INLINE void dot(Sums& sums, Weights w, const Inputs& x) {
      for (int c = 0; c < 16; ++c)
        sums.v[c] += w.line[4 * c] * x.v[0] + w.line[4 * c + 1] * x.v[1] + w.line[4 * c + 2] * x.v[2] +
                     w.line[4 * c + 3] * x.v[3];
    }
  };
};

#if defined(__AVX2__)
// Half a panel in two registers of four channels, each channel as two halves of its sum:
// (x0 w0 + x1 w1, x2 w2 + x3 w3).
template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct DotI8<Level> {
  using Input = std::int16_t;
  static constexpr int input_offset(bool) { return 0; }
  static constexpr int channels = 8, rows = 6, panels = 1, sums = 6, in_flight = 2, chains = 2;

  struct Weights {
    __m256i low, high;
    static INLAY_INLINE Weights load(const std::int8_t* p) {
      return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
              _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + 1))};
    }
  };
  struct Inputs {
    __m256i v;
    static INLAY_INLINE Inputs load(const Input* p) {
      long long four;
      std::memcpy(&four, p, sizeof four);
      return {_mm256_set1_epi64x(four)};
    }
    // To the compiler it is another value from here on: a peak must not have its products shared.
    INLAY_INLINE void hide() { asm volatile("" : "+x"(v)); }
  };
  struct Sums {
    __m256i low = _mm256_setzero_si256(), high = _mm256_setzero_si256();
    INLAY_INLINE void store(std::int32_t* p) const {
      // hadd works within 128 bits: channels 0 1 4 5 2 3 6 7
      const __m256i eight = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0b11011000);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), eight);
    }
    friend INLAY_INLINE Sums operator+(Sums a, Sums b) {
      a.low = _mm256_add_epi32(a.low, b.low);
      a.high = _mm256_add_epi32(a.high, b.high);
      return a;
    }
    friend INLAY_INLINE void dot(Sums& sums, Weights w, Inputs x) {
      sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(w.low, x.v));
      sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(w.high, x.v));
    }
  };
};
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__)
// Two registers of eight channels, as halves of sums.
template <class Level>
requires(std::is_base_of_v<isa::avx512, Level> && !std::is_base_of_v<isa::avx512_vnni, Level>) struct DotI8<Level> {
  using Input = std::int16_t;
  static constexpr int input_offset(bool) { return 0; }
  static constexpr int channels = 16, rows = 12, panels = 1, sums = 12, in_flight = 1, chains = 6;

  struct Weights {
    __m512i low, high;
    static INLAY_INLINE Weights load(const std::int8_t* p) {
      return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
              _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + 1))};
    }
  };
  struct Inputs {
    __m512i v;
    static INLAY_INLINE Inputs load(const Input* p) {
      long long four;
      std::memcpy(&four, p, sizeof four);
      return {_mm512_set1_epi64(four)};
    }
    INLAY_INLINE void hide() { asm volatile("" : "+v"(v)); }
  };
  struct Sums {
    __m512i low = _mm512_setzero_si512(), high = _mm512_setzero_si512();
    INLAY_INLINE void store(std::int32_t* p) const {
      const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
      _mm512_storeu_si512(
          p, _mm512_add_epi32(_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high)));
    }
    friend INLAY_INLINE Sums operator+(Sums a, Sums b) {
      a.low = _mm512_add_epi32(a.low, b.low);
      a.high = _mm512_add_epi32(a.high, b.high);
      return a;
    }
    friend INLAY_INLINE void dot(Sums& sums, Weights w, Inputs x) {
      sums.low = _mm512_add_epi32(sums.low, _mm512_madd_epi16(w.low, x.v));
      sums.high = _mm512_add_epi32(sums.high, _mm512_madd_epi16(w.high, x.v));
    }
  };
};
#endif

#if defined(__AVX512VNNI__)
// VPDPBUSD: 64 products an instruction, u8 x s8, four of them to each int32, without saturation.
template <class Level>
requires std::is_base_of_v<isa::avx512_vnni, Level>
struct DotI8<Level> {
  using Input = std::uint8_t;
  static constexpr int input_offset(bool is_unsigned) { return is_unsigned ? 0 : 128; }
  static constexpr int channels = 16, rows = 12, panels = 2, sums = 24, in_flight = 4, chains = 12;

  struct Weights {
    __m512i v;
    static INLAY_INLINE Weights load(const std::int8_t* p) { return {_mm512_loadu_si512(p)}; }
  };
  struct Inputs {
    __m512i v;
    static INLAY_INLINE Inputs load(const Input* p) { return {_mm512_set1_epi32(four_bytes(p))}; }
    INLAY_INLINE void hide() { asm volatile("" : "+v"(v)); }
  };
  struct Sums {
    __m512i v = _mm512_setzero_si512();
    INLAY_INLINE void store(std::int32_t* p) const { _mm512_storeu_si512(p, v); }
    friend INLAY_INLINE Sums operator+(Sums a, Sums b) { return {_mm512_add_epi32(a.v, b.v)}; }
    friend INLAY_INLINE void dot(Sums& sums, Weights w, Inputs x) { sums.v = _mm512_dpbusd_epi32(sums.v, x.v, w.v); }
  };
};
#endif

#if defined(__aarch64__)
// Signed bytes meet signed ones, and sums are four registers.
struct NeonDot {
  using Input = std::int8_t;
  static constexpr int input_offset(bool is_unsigned) { return is_unsigned ? -128 : 0; }

  struct Inputs {
    int8x16_t v;
    static INLAY_INLINE Inputs load(const Input* p) { return {vreinterpretq_s8_s32(vdupq_n_s32(four_bytes(p)))}; }
    INLAY_INLINE void hide() { asm volatile("" : "+w"(v)); }
  };
  struct FourSums {
    int32x4_t v[4] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
    template <std::derived_from<FourSums> Sums> friend INLAY_INLINE Sums operator+(Sums a, const Sums& b) {
      unroll<4>([&](auto i) INLAY_INLINE_LAMBDA { a.v[i] = vaddq_s32(a.v[i], b.v[i]); });
      return a;
    }
  };
};

// Eight channels, each as two halves of its sum, as at AVX2. SMULL's products of bytes fit 16 bits, and SADALP adds two
// of them to an int32.
template <class Level>
requires(std::is_base_of_v<isa::neon, Level> && !std::is_base_of_v<isa::neon_dotprod, Level>) struct DotI8<Level>
    : NeonDot {
  static constexpr int channels = 8, rows = 4, panels = 1, sums = 4, in_flight = 2, chains = 4;

  struct Weights {
    int8x16_t low, high;
    static INLAY_INLINE Weights load(const std::int8_t* p) { return {vld1q_s8(p), vld1q_s8(p + 16)}; }
  };
  struct Sums : NeonDot::FourSums {
    INLAY_INLINE void store(std::int32_t* p) const {
      vst1q_s32(p, vpaddq_s32(v[0], v[1]));
      vst1q_s32(p + 4, vpaddq_s32(v[2], v[3]));
    }
    friend INLAY_INLINE void dot(Sums& sums, Weights w, Inputs x) {
      sums.v[0] = vpadalq_s16(sums.v[0], vmull_s8(vget_low_s8(w.low), vget_low_s8(x.v)));
      sums.v[1] = vpadalq_s16(sums.v[1], vmull_high_s8(w.low, x.v));
      sums.v[2] = vpadalq_s16(sums.v[2], vmull_s8(vget_low_s8(w.high), vget_low_s8(x.v)));
      sums.v[3] = vpadalq_s16(sums.v[3], vmull_high_s8(w.high, x.v));
    }
  };
};
#endif

#if defined(__ARM_FEATURE_DOTPROD)
// SDOT: 16 products an instruction, s8 x s8; USDOT has them u8 x s8, which saves nothing here.
template <class Level>
requires std::is_base_of_v<isa::neon_dotprod, Level>
struct DotI8<Level> : NeonDot {
  static constexpr int channels = 16, rows = 6, panels = 1, sums = 6, in_flight = 2, chains = 4;

  struct Weights {
    int8x16_t v[4];
    static INLAY_INLINE Weights load(const std::int8_t* p) {
      return {{vld1q_s8(p), vld1q_s8(p + 16), vld1q_s8(p + 32), vld1q_s8(p + 48)}};
    }
  };
  struct Sums : NeonDot::FourSums {
    INLAY_INLINE void store(std::int32_t* p) const {
      unroll<4>([&](auto i) INLAY_INLINE_LAMBDA { vst1q_s32(p + 4 * i, v[i]); });
    }
    friend INLAY_INLINE void dot(Sums& sums, const Weights& w, Inputs x) {
      unroll<4>([&](auto i) INLAY_INLINE_LAMBDA { sums.v[i] = vdotq_s32(sums.v[i], w.v[i], x.v); });
    }
  };
};
#endif

}  // namespace inlay::simd
