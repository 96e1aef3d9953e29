// Eight words.
#pragma once

#include "cpu_kernels/simd/immintrin.hpp"

#include "cpu_kernels/simd/int4.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeWords<Level> {
  __m256i v;
  static INLAY_INLINE CodeWords load(const std::uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  template <CodeForm Form, int Bits, int J> INLAY_INLINE Floats<Level> code() const {
    const __m256i part = code_shift<Form, Bits>(J) == 0 ? v : _mm256_srli_epi32(v, code_shift<Form, Bits>(J));
    const __m256i bits = _mm256_and_si256(part, _mm256_set1_epi32(code_mask<Form, Bits, J>));
    return Form == CodeForm::subnormal ? _mm256_castsi256_ps(bits) : _mm256_cvtepi32_ps(bits);
  }
};

template <class Level, int Bits>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeBytes<Level, Bits> {
  __m256i low, high;  // nibbles
  INLAY_INLINE explicit CodeBytes(CodeWords<Level> words)
      : low(_mm256_and_si256(words.v, _mm256_set1_epi8(15))),
        high(_mm256_and_si256(_mm256_srli_epi16(words.v, 4), _mm256_set1_epi8(15))) {}
};

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeSums<Level> {
  __m256i v = _mm256_setzero_si256();

  INLAY_INLINE void add(CodeBytes<Level, 4> codes, const std::int8_t* x) {
    const __m256i even = _mm256_maddubs_epi16(codes.low, _mm256_set1_epi32(four_bytes(x)));
    const __m256i odd = _mm256_maddubs_epi16(codes.high, _mm256_set1_epi32(four_bytes(x + 4)));
    v = _mm256_add_epi32(v, _mm256_madd_epi16(_mm256_add_epi16(even, odd), _mm256_set1_epi16(1)));
  }
  INLAY_INLINE void add(CodeBytes<Level, 8> codes, const std::int8_t* x) {
    const __m256i bytes = _mm256_set1_epi32(four_bytes(x));
    const __m256i low = _mm256_madd_epi16(_mm256_maddubs_epi16(codes.low, bytes), _mm256_set1_epi16(1));
    const __m256i high = _mm256_madd_epi16(_mm256_maddubs_epi16(codes.high, bytes), _mm256_set1_epi16(16));
    v = _mm256_add_epi32(v, _mm256_add_epi32(low, high));
  }
  INLAY_INLINE Floats<Level> to_floats() const { return _mm256_cvtepi32_ps(v); }
};

}  // namespace inlay::simd
