// Eight words.
#pragma once

#include "cpu_kernels/simd/intrinsics.hpp"

#include "cpu_kernels/simd/int4.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeBytes<Level> {
  __m256i v;
};

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
  template <int Bits, int H> INLAY_INLINE CodeBytes<Level> bytes() const {
    return {_mm256_and_si256(H ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15))};
  }
};

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeInputs<Level> {
  __m256i v;
  static INLAY_INLINE CodeInputs load(const std::int8_t* x) { return {_mm256_set1_epi32(four_bytes(x))}; }
};

// Sums have the type of their lanes: one that is now a vector of 16 bits and now an __m256i goes through memory (GCC
// 12).
template <class Level, int Bits>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeSums<Level, Bits> {
  static constexpr index most = 32;
  static constexpr int halves = 2;
  static constexpr int columns(int) { return 1; }
  __v8si v;
  __v16hi low, high;  // pairs: of both nibbles in `low` where they are codes
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v((__v8si)_mm256_set1_epi32(start)) {}
  INLAY_INLINE void open() { low = high = (__v16hi)_mm256_setzero_si256(); }
  template <int H> INLAY_INLINE void add(CodeBytes<Level> codes, CodeInputs<Level> inputs) {
    __v16hi& pairs = H && Bits == 8 ? high : low;
    pairs = (__v16hi)_mm256_add_epi16((__m256i)pairs, _mm256_maddubs_epi16(codes.v, inputs.v));
    // Or GCC 12 adds the products of both halves first, and has no registers for so many.
    asm("" : "+x"(pairs));
  }
  INLAY_INLINE void close() {
    widen(low, 1);
    if (Bits == 8) widen(high, 16);
  }
  INLAY_INLINE Floats<Level> to_floats() const { return _mm256_cvtepi32_ps((__m256i)v); }

 private:
  INLAY_INLINE void widen(__v16hi pairs, short weight) {
    v = (__v8si)_mm256_add_epi32((__m256i)v, _mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(weight)));
  }
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
