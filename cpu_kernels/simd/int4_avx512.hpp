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
  INLAY_INLINE explicit CodeBytes(CodeWords<Level> words)
      : low(whole ? words.v : _mm512_and_si512(words.v, _mm512_set1_epi8(15))),
        high(_mm512_and_si512(_mm512_srli_epi16(words.v, 4), _mm512_set1_epi8(15))) {}
};

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeSums<Level> {
  __m512i v = _mm512_setzero_si512();

  INLAY_INLINE void add(CodeBytes<Level, 4> codes, const std::int8_t* x) {
    const __m512i even = _mm512_set1_epi32(four_bytes(x)), odd = _mm512_set1_epi32(four_bytes(x + 4));
#if defined(__AVX512VNNI__)
    if constexpr (std::is_base_of_v<isa::avx512_vnni, Level>) {
      v = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(v, codes.low, even), codes.high, odd);
      return;
    }
#endif
    const __m512i pairs =
        _mm512_add_epi16(_mm512_maddubs_epi16(codes.low, even), _mm512_maddubs_epi16(codes.high, odd));
    v = _mm512_add_epi32(v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  INLAY_INLINE void add(CodeBytes<Level, 8> codes, const std::int8_t* x) {
    const __m512i bytes = _mm512_set1_epi32(four_bytes(x));
#if defined(__AVX512VNNI__)
    if constexpr (std::is_base_of_v<isa::avx512_vnni, Level>) {
      v = _mm512_dpbusd_epi32(v, codes.low, bytes);
      return;
    }
#endif
    const __m512i low = _mm512_madd_epi16(_mm512_maddubs_epi16(codes.low, bytes), _mm512_set1_epi16(1));
    const __m512i high = _mm512_madd_epi16(_mm512_maddubs_epi16(codes.high, bytes), _mm512_set1_epi16(16));
    v = _mm512_add_epi32(v, _mm512_add_epi32(low, high));
  }
  INLAY_INLINE Floats<Level> to_floats() const { return _mm512_cvtepi32_ps(v); }
};

}  // namespace inlay::simd
