// Bf16Pairs<Level>: a register of bf16 pairs, one pair for each f32 lane of Floats<Level>.
//
//   load(p)               size pairs, p0 p1 | p2 p3 | ..
//   load(p, n)            the first n bf16, the rest zero
//   broadcast(pair)       the same two everywhere (AVX-512)
//   even(), odd()         the first, the second of each pair, widened exactly
//   bits(), of(bits)      the pairs as they are, to be moved about as f32 lanes
//   dot(acc, a, b)        acc + a.odd * b.odd + a.even * b.even in each lane
//
// dot exists where has_dot_bf16<Level>. VDPBF16PS fuses each of its two products into the sum with one
// rounding to nearest even, odd first, takes subnormal operands as zero, and flushes subnormal
// results to zero, whatever MXCSR says.
#pragma once

#include "cpu_kernels/simd/immintrin.hpp"

#include <bit>
#include <cstring>

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level> inline constexpr bool has_dot_bf16 = std::is_base_of_v<isa::avx512_bf16, Level>;

template <class Level> struct Bf16Pairs;

template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct Bf16Pairs<Level> {
  bf16 first, second;
  static INLAY_INLINE Bf16Pairs load(const bf16* p) { return {p[0], p[1]}; }
  static INLAY_INLINE Bf16Pairs load(const bf16* p, index n) { return {p[0], n > 1 ? p[1] : bf16()}; }
  static INLAY_INLINE Bf16Pairs of(Floats<Level> bits) { return std::bit_cast<Bf16Pairs>(bits.v); }
  INLAY_INLINE Floats<Level> bits() const { return Floats<Level>(std::bit_cast<float>(*this)); }
  INLAY_INLINE Floats<Level> even() const { return Floats<Level>(static_cast<float>(first)); }
  INLAY_INLINE Floats<Level> odd() const { return Floats<Level>(static_cast<float>(second)); }
};

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct Bf16Pairs<Level> {
  __m256i v;
  static INLAY_INLINE Bf16Pairs load(const bf16* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  static INLAY_INLINE Bf16Pairs load(const bf16* p, index n) {
    bf16 part[2 * Floats<Level>::size] = {};
    std::memcpy(part, p, static_cast<std::size_t>(n) * sizeof(bf16));
    return load(part);
  }
  static INLAY_INLINE Bf16Pairs of(Floats<Level> bits) { return {_mm256_castps_si256(bits.v)}; }
  INLAY_INLINE Floats<Level> bits() const { return _mm256_castsi256_ps(v); }
  INLAY_INLINE Floats<Level> even() const { return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16)); }
  INLAY_INLINE Floats<Level> odd() const {
    return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
};
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct Bf16Pairs<Level> {
  __m512i v;
  static INLAY_INLINE Bf16Pairs load(const bf16* p) { return {_mm512_loadu_si512(p)}; }
  static INLAY_INLINE Bf16Pairs load(const bf16* p, index n) {
    return {_mm512_maskz_loadu_epi16(static_cast<__mmask32>((std::uint64_t{1} << n) - 1), p)};
  }
  static INLAY_INLINE Bf16Pairs broadcast(std::uint32_t pair) { return {_mm512_set1_epi32(static_cast<int>(pair))}; }
  INLAY_INLINE Floats<Level> even() const { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }
  INLAY_INLINE Floats<Level> odd() const {
    return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static INLAY_INLINE Bf16Pairs of(Floats<Level> bits) { return {_mm512_castps_si512(bits.v)}; }
  INLAY_INLINE Floats<Level> bits() const { return _mm512_castsi512_ps(v); }
#if defined(__AVX512BF16__)
  friend INLAY_INLINE Floats<Level> dot(Floats<Level> acc, Bf16Pairs a, Bf16Pairs b) {
    return _mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)b.v);
  }
#endif
};
#endif

}  // namespace inlay::simd
