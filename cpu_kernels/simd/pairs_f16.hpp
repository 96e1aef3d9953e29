// F16Pairs<Level>: a register of f16 pairs, one pair for each f32 lane of Floats<Level>, with the
// verbs of Bf16Pairs (dot_bf16.hpp): load(p), load(p, n), bits(), of(bits), even(), odd().
#pragma once

#include "cpu_kernels/simd/immintrin.hpp"

#include <bit>
#include <cstring>

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level> struct F16Pairs;

template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct F16Pairs<Level> {
  f16 first, second;
  static INLAY_INLINE F16Pairs load(const f16* p) { return {p[0], p[1]}; }
  static INLAY_INLINE F16Pairs load(const f16* p, index n) { return {p[0], n > 1 ? p[1] : f16()}; }
  static INLAY_INLINE F16Pairs of(Floats<Level> bits) { return std::bit_cast<F16Pairs>(bits.v); }
  INLAY_INLINE Floats<Level> bits() const { return Floats<Level>(std::bit_cast<float>(*this)); }
  INLAY_INLINE Floats<Level> even() const { return Floats<Level>(static_cast<float>(first)); }
  INLAY_INLINE Floats<Level> odd() const { return Floats<Level>(static_cast<float>(second)); }
};

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct F16Pairs<Level> {
  __m256i v;
  static INLAY_INLINE F16Pairs load(const f16* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  static INLAY_INLINE F16Pairs load(const f16* p, index n) {
    f16 part[2 * Floats<Level>::size] = {};
    std::memcpy(part, p, static_cast<std::size_t>(n) * sizeof(f16));
    return load(part);
  }
  static INLAY_INLINE F16Pairs of(Floats<Level> bits) { return {_mm256_castps_si256(bits.v)}; }
  INLAY_INLINE Floats<Level> bits() const { return _mm256_castsi256_ps(v); }
  INLAY_INLINE Floats<Level> even() const { return widen(_mm256_and_si256(v, _mm256_set1_epi32(0xffff))); }
  INLAY_INLINE Floats<Level> odd() const { return widen(_mm256_srli_epi32(v, 16)); }

 private:
  static INLAY_INLINE Floats<Level> widen(__m256i words) {
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0b1000);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
  }
};
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct F16Pairs<Level> {
  __m512i v;
  static INLAY_INLINE F16Pairs load(const f16* p) { return {_mm512_loadu_si512(p)}; }
  static INLAY_INLINE F16Pairs load(const f16* p, index n) {
    return {_mm512_maskz_loadu_epi16(static_cast<__mmask32>((std::uint64_t{1} << n) - 1), p)};
  }
  static INLAY_INLINE F16Pairs of(Floats<Level> bits) { return {_mm512_castps_si512(bits.v)}; }
  INLAY_INLINE Floats<Level> bits() const { return _mm512_castsi512_ps(v); }
  INLAY_INLINE Floats<Level> even() const { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  INLAY_INLINE Floats<Level> odd() const { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(v, 16))); }
};
#endif

}  // namespace inlay::simd
