// Ints<Level>: int32 lanes, as many as Floats<Level> has. Arithmetic wraps.
//
//   Ints(), Ints(s)        zero, broadcast
//   load(p), load(p, n)    n: the first n lanes, rest 0
//   store(p), store(p, n)
//   a - b, a * b           modulo 2^32
//   floats()               rounded to nearest even
//   byte(j)                byte j of each lane, its sign extended
#pragma once

#include "cpu_kernels/simd/immintrin.hpp"

#include <cstring>

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level> struct Ints;

template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct Ints<Level> {
  std::int32_t v;
  INLAY_INLINE Ints() : v(0) {}
  INLAY_INLINE explicit Ints(std::int32_t value) : v(value) {}
  static INLAY_INLINE Ints load(const std::int32_t* p) { return Ints(*p); }
  static INLAY_INLINE Ints load(const std::int32_t* p, index) { return Ints(*p); }
  INLAY_INLINE void store(std::int32_t* p) const { *p = v; }
  INLAY_INLINE void store(std::int32_t* p, index) const { *p = v; }
  INLAY_INLINE Floats<Level> floats() const { return Floats<Level>(static_cast<float>(v)); }
  INLAY_INLINE Ints byte(int j) const { return Ints(static_cast<std::int8_t>(v >> 8 * j)); }
  friend INLAY_INLINE Ints operator-(Ints a, Ints b) {
    return Ints(static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v) - static_cast<std::uint32_t>(b.v)));
  }
  friend INLAY_INLINE Ints operator*(Ints a, Ints b) {
    return Ints(static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v) * static_cast<std::uint32_t>(b.v)));
  }
};

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct Ints<Level> {
  __m256i v;
  INLAY_INLINE Ints() : v(_mm256_setzero_si256()) {}
  INLAY_INLINE explicit Ints(std::int32_t value) : v(_mm256_set1_epi32(value)) {}
  INLAY_INLINE Ints(__m256i lanes) : v(lanes) {}
  static INLAY_INLINE Ints load(const std::int32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static INLAY_INLINE Ints load(const std::int32_t* p, index n) { return _mm256_maskload_epi32(p, below(n)); }
  INLAY_INLINE void store(std::int32_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  INLAY_INLINE void store(std::int32_t* p, index n) const { _mm256_maskstore_epi32(p, below(n), v); }
  INLAY_INLINE Floats<Level> floats() const { return _mm256_cvtepi32_ps(v); }
  INLAY_INLINE Ints byte(int j) const {
    return _mm256_srai_epi32(_mm256_sll_epi32(v, _mm_cvtsi32_si128(24 - 8 * j)), 24);
  }
  friend INLAY_INLINE Ints operator-(Ints a, Ints b) { return _mm256_sub_epi32(a.v, b.v); }
  friend INLAY_INLINE Ints operator*(Ints a, Ints b) { return _mm256_mullo_epi32(a.v, b.v); }

 private:
  static INLAY_INLINE __m256i below(index n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct Ints<Level> {
  __m512i v;
  INLAY_INLINE Ints() : v(_mm512_setzero_si512()) {}
  INLAY_INLINE explicit Ints(std::int32_t value) : v(_mm512_set1_epi32(value)) {}
  INLAY_INLINE Ints(__m512i lanes) : v(lanes) {}
  static INLAY_INLINE Ints load(const std::int32_t* p) { return _mm512_loadu_si512(p); }
  static INLAY_INLINE Ints load(const std::int32_t* p, index n) {
    return _mm512_maskz_loadu_epi32(Floats<Level>::first(n), p);
  }
  INLAY_INLINE void store(std::int32_t* p) const { _mm512_storeu_si512(p, v); }
  INLAY_INLINE void store(std::int32_t* p, index n) const { _mm512_mask_storeu_epi32(p, Floats<Level>::first(n), v); }
  INLAY_INLINE Floats<Level> floats() const { return _mm512_cvtepi32_ps(v); }
  INLAY_INLINE Ints byte(int j) const {
    return _mm512_srai_epi32(_mm512_sll_epi32(v, _mm_cvtsi32_si128(24 - 8 * j)), 24);
  }
  friend INLAY_INLINE Ints operator-(Ints a, Ints b) { return _mm512_sub_epi32(a.v, b.v); }
  friend INLAY_INLINE Ints operator*(Ints a, Ints b) { return _mm512_mullo_epi32(a.v, b.v); }
};
#endif

}  // namespace inlay::simd
