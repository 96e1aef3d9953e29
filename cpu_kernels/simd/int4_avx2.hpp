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
  CodeBytes() = default;
  INLAY_INLINE explicit CodeBytes(CodeWords<Level> words)
      : low(_mm256_and_si256(words.v, _mm256_set1_epi8(15))),
        high(_mm256_and_si256(_mm256_srli_epi16(words.v, 4), _mm256_set1_epi8(15))) {}
};

template <class Level, int Bits>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeInputs<Level, Bits> {
  __m256i even, odd;  // of 4 bits; all four of 8 bits are `even`
  static INLAY_INLINE CodeInputs load(const std::int8_t* x) {
    const __m256i even = _mm256_set1_epi32(four_bytes(x));
    return {even, Bits == 4 ? _mm256_set1_epi32(four_bytes(x + 4)) : even};
  }
};

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeSums<Level, 4> {
  static constexpr index most = 32;
  static constexpr int columns(int) { return 2; }
  __m256i v, pairs;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v(_mm256_set1_epi32(start)) {}
  INLAY_INLINE void open() { pairs = _mm256_setzero_si256(); }
  INLAY_INLINE void add(CodeBytes<Level, 4> codes, CodeInputs<Level, 4> inputs) {
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(codes.low, inputs.even));
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(codes.high, inputs.odd));
  }
  INLAY_INLINE void close() { v = _mm256_add_epi32(v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))); }
  INLAY_INLINE Floats<Level> to_floats() const { return _mm256_cvtepi32_ps(v); }
};

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeSums<Level, 8> {
  static constexpr index most = 32;
  static constexpr int columns(int) { return 1; }
  __m256i v, low, high;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v(_mm256_set1_epi32(start)) {}
  INLAY_INLINE void open() { low = high = _mm256_setzero_si256(); }
  INLAY_INLINE void add(CodeBytes<Level, 8> codes, CodeInputs<Level, 8> inputs) {
    low = _mm256_add_epi16(low, _mm256_maddubs_epi16(codes.low, inputs.even));
    high = _mm256_add_epi16(high, _mm256_maddubs_epi16(codes.high, inputs.even));
  }
  INLAY_INLINE void close() {
    v = _mm256_add_epi32(v, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
    v = _mm256_add_epi32(v, _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
  }
  INLAY_INLINE Floats<Level> to_floats() const { return _mm256_cvtepi32_ps(v); }
};

// Within each half of a register: the even codes of two words, then the odd ones.
template <class Level, int Bits>
requires(!std::is_base_of_v<isa::scalar, Level> && Bits == 4) INLAY_INLINE void arrange(std::int8_t* bytes) {
  __m256i* const p = reinterpret_cast<__m256i*>(bytes);
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
  _mm256_storeu_si256(p, _mm256_shuffle_epi8(_mm256_loadu_si256(p), order));
}

}  // namespace inlay::simd
