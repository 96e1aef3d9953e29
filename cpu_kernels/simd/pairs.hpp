// Pairs<Level, T>: a register of f16 or bf16 pairs, one pair for each f32 lane of Floats<Level>.
//
//   load(p)               size pairs, p0 p1 | p2 p3 | ..
//   load(p, n)            the first n elements, the rest zero
//   broadcast(pair)       the same two everywhere (AVX-512)
//   even(), odd()         the first, the second of each pair, widened exactly
//   bits(), of(bits)      the pairs as they are, to be moved about as f32 lanes
#pragma once

#include "cpu_kernels/simd/intrinsics.hpp"

#include <bit>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/part.hpp"

namespace inlay::simd {

template <class Level, class T> struct Pairs;

template <class Level> using F16Pairs = Pairs<Level, f16>;
template <class Level> using Bf16Pairs = Pairs<Level, bf16>;

template <class Level, class T>
requires std::is_base_of_v<isa::scalar, Level>
struct Pairs<Level, T> {
  T first, second;
  static INLAY_INLINE Pairs load(const T* p) { return {p[0], p[1]}; }
  static INLAY_INLINE Pairs load(const T* p, index n) { return {p[0], n > 1 ? p[1] : T()}; }
  static INLAY_INLINE Pairs of(Floats<Level> bits) { return std::bit_cast<Pairs>(bits.v); }
  INLAY_INLINE Floats<Level> bits() const { return Floats<Level>(std::bit_cast<float>(*this)); }
  INLAY_INLINE Floats<Level> even() const { return Floats<Level>(static_cast<float>(first)); }
  INLAY_INLINE Floats<Level> odd() const { return Floats<Level>(static_cast<float>(second)); }
};

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
template <class Level, class T>
requires std::is_base_of_v<isa::avx2, Level>
struct Pairs<Level, T> {
  __m256i v;
  static INLAY_INLINE Pairs load(const T* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  static INLAY_INLINE Pairs load(const T* p, index n) {
    return load_part<2 * Floats<Level>::size>(p, n, [](const T* part) INLAY_INLINE_LAMBDA { return load(part); });
  }
  static INLAY_INLINE Pairs of(Floats<Level> bits) { return {_mm256_castps_si256(bits.v)}; }
  INLAY_INLINE Floats<Level> bits() const { return _mm256_castsi256_ps(v); }
  INLAY_INLINE Floats<Level> even() const {
    if constexpr (std::is_same_v<T, f16>)
      return widen(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)));
    else
      return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
  }
  INLAY_INLINE Floats<Level> odd() const {
    if constexpr (std::is_same_v<T, f16>)
      return widen(_mm256_srli_epi32(v, 16));
    else
      return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }

 private:
  static INLAY_INLINE Floats<Level> widen(__m256i words) {
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0b1000);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
  }
};
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
template <class Level, class T>
requires std::is_base_of_v<isa::avx512, Level>
struct Pairs<Level, T> {
  __m512i v;
  static INLAY_INLINE Pairs load(const T* p) { return {_mm512_loadu_si512(p)}; }
  static INLAY_INLINE Pairs load(const T* p, index n) {
    return {_mm512_maskz_loadu_epi16(static_cast<__mmask32>((std::uint64_t{1} << n) - 1), p)};
  }
  static INLAY_INLINE Pairs broadcast(std::uint32_t pair) { return {_mm512_set1_epi32(static_cast<int>(pair))}; }
  static INLAY_INLINE Pairs of(Floats<Level> bits) { return {_mm512_castps_si512(bits.v)}; }
  INLAY_INLINE Floats<Level> bits() const { return _mm512_castsi512_ps(v); }
  INLAY_INLINE Floats<Level> even() const {
    if constexpr (std::is_same_v<T, f16>)
      return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
    else
      return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
  }
  INLAY_INLINE Floats<Level> odd() const {
    if constexpr (std::is_same_v<T, f16>)
      return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(v, 16)));
    else
      return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
};
#endif

#if defined(__aarch64__)
template <class Level, class T>
requires std::is_base_of_v<isa::neon, Level>
struct Pairs<Level, T> {
  uint16x8_t v;
  static INLAY_INLINE Pairs load(const T* p) { return {vld1q_u16(reinterpret_cast<const std::uint16_t*>(p))}; }
  static INLAY_INLINE Pairs load(const T* p, index n) {
    return load_part<2 * Floats<Level>::size>(p, n, [](const T* part) INLAY_INLINE_LAMBDA { return load(part); });
  }
  static INLAY_INLINE Pairs of(Floats<Level> bits) { return {vreinterpretq_u16_f32(bits.v)}; }
  INLAY_INLINE Floats<Level> bits() const { return vreinterpretq_f32_u16(v); }
  INLAY_INLINE Floats<Level> even() const {
    if constexpr (std::is_same_v<T, f16>)
      return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_u16(v))));
    else
      return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u16(v), 16));
  }
  INLAY_INLINE Floats<Level> odd() const {
    if constexpr (std::is_same_v<T, f16>)
      return vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(vreinterpretq_u32_u16(v), 16)));
    else
      return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u16(v), vdupq_n_u32(0xffff0000u)));
  }
};
#endif

}  // namespace inlay::simd
