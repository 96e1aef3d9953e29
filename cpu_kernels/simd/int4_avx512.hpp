// Sixteen words.
#pragma once

#include "cpu_kernels/simd/immintrin.hpp"

#include "cpu_kernels/simd/int4.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeWords<Level> {
  __m512i v;
  static INLAY_INLINE CodeWords load(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  template <CodeForm Form, int Bits, int J> INLAY_INLINE Floats<Level> code() const {
    constexpr int shift = code_shift<Form, Bits>(J);  // without optimisation the intrinsic is a macro
    const __m512i part = shift == 0 ? v : _mm512_srli_epi32(v, shift);
    const __m512i bits = _mm512_and_si512(part, _mm512_set1_epi32(code_mask<Form, Bits, J>));
    return Form == CodeForm::subnormal ? _mm512_castsi512_ps(bits) : _mm512_cvtepi32_ps(bits);
  }
};

template <class Level, int Bits>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeBytes<Level, Bits> {
  static constexpr bool whole = Bits == 8 && std::is_base_of_v<isa::avx512_vnni, Level>;
  __m512i low, high;  // nibbles; the whole byte in `low` where VNNI multiplies it
  CodeBytes() = default;
  INLAY_INLINE explicit CodeBytes(CodeWords<Level> words)
      : low(whole ? words.v : _mm512_and_si512(words.v, _mm512_set1_epi8(15))),
        high(_mm512_and_si512(_mm512_srli_epi16(words.v, 4), _mm512_set1_epi8(15))) {}
};

template <class Level, int Bits>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeInputs<Level, Bits> {
  __m512i even, odd;  // of 4 bits; all four of 8 bits are `even`
  static INLAY_INLINE CodeInputs load(const std::int8_t* x) {
    const __m512i even = _mm512_set1_epi32(four_bytes(x));
    return {even, Bits == 4 ? _mm512_set1_epi32(four_bytes(x + 4)) : even};
  }
};

// Pairs in 16 bits, as at AVX2.
template <class Level, int Bits>
requires(std::is_base_of_v<isa::avx512, Level> &&
         !std::is_base_of_v<isa::avx512_vnni, Level>) struct CodeSums<Level, Bits> {
  static constexpr index most = 32;
  static constexpr int columns(int) { return Bits == 4 ? 2 : 1; }
  __m512i v, low, high;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v(_mm512_set1_epi32(start)) {}
  INLAY_INLINE void open() { low = high = _mm512_setzero_si512(); }
  INLAY_INLINE void add(CodeBytes<Level, Bits> codes, CodeInputs<Level, Bits> inputs) {
    __m512i& second = Bits == 4 ? low : high;
    low = _mm512_add_epi16(low, _mm512_maddubs_epi16(codes.low, inputs.even));
    second = _mm512_add_epi16(second, _mm512_maddubs_epi16(codes.high, inputs.odd));
  }
  INLAY_INLINE void close() {
    v = _mm512_add_epi32(v, _mm512_madd_epi16(low, _mm512_set1_epi16(1)));
    if (Bits == 8) v = _mm512_add_epi32(v, _mm512_madd_epi16(high, _mm512_set1_epi16(16)));
  }
  INLAY_INLINE Floats<Level> to_floats() const { return _mm512_cvtepi32_ps(v); }
};

#if defined(__AVX512VNNI__)
// A dot product takes four cycles (Zen 5) and two begin in each: eight sums or more hide that.
template <class Level, int Bits>
requires std::is_base_of_v<isa::avx512_vnni, Level>
struct CodeSums<Level, Bits> {
  static constexpr index most = 128;
  static constexpr int columns(int rows) { return rows >= 8 ? 2 : 4; }
  __v16si v;  // of one type for products and conversion: as __m512i GCC 12 stored it in each step for the conversion
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v((__v16si)_mm512_set1_epi32(start)) {}
  INLAY_INLINE void open() {}
  INLAY_INLINE void add(CodeBytes<Level, Bits> codes, CodeInputs<Level, Bits> inputs) {
    v = (__v16si)_mm512_dpbusd_epi32((__m512i)v, codes.low, inputs.even);
    if (Bits == 4) v = (__v16si)_mm512_dpbusd_epi32((__m512i)v, codes.high, inputs.odd);
  }
  INLAY_INLINE void close() {}
  INLAY_INLINE Floats<Level> to_floats() const { return _mm512_cvtepi32_ps((__m512i)v); }
};
#endif

}  // namespace inlay::simd
