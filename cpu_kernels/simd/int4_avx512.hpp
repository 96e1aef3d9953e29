// Sixteen words.
#pragma once

#include "cpu_kernels/simd/intrinsics.hpp"

#include "cpu_kernels/simd/int4.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeBytes<Level> {
  __m512i v;
};

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
  template <int Bits, int H> INLAY_INLINE CodeBytes<Level> bytes() const {
    if constexpr (Bits == 8 && std::is_base_of_v<isa::avx512_vnni, Level>)
      return {v};
    else
      return {_mm512_and_si512(H ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15))};
  }
};

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeInputs<Level> {
  __m512i v;
  static INLAY_INLINE CodeInputs load(const std::int8_t* x) { return {_mm512_set1_epi32(four_bytes(x))}; }
};

// Pairs in 16 bits, as at AVX2.
template <class Level, int Bits>
requires(std::is_base_of_v<isa::avx512, Level> &&
         !std::is_base_of_v<isa::avx512_vnni, Level>) struct CodeSums<Level, Bits> {
  static constexpr index most = 32;
  static constexpr int halves = 2;
  static constexpr int columns(int) { return Bits == 4 ? 2 : 1; }
  __v16si v;
  __v32hi low, high;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v((__v16si)_mm512_set1_epi32(start)) {}
  INLAY_INLINE void open() { low = high = (__v32hi)_mm512_setzero_si512(); }
  template <int H> INLAY_INLINE void add(CodeBytes<Level> codes, CodeInputs<Level> inputs) {
    __v32hi& pairs = H && Bits == 8 ? high : low;
    pairs = (__v32hi)_mm512_add_epi16((__m512i)pairs, _mm512_maddubs_epi16(codes.v, inputs.v));
    asm("" : "+v"(pairs));
  }
  INLAY_INLINE void close() {
    widen(low, 1);
    if (Bits == 8) widen(high, 16);
  }
  INLAY_INLINE Floats<Level> to_floats() const { return _mm512_cvtepi32_ps((__m512i)v); }

 private:
  INLAY_INLINE void widen(__v32hi pairs, short weight) {
    v = (__v16si)_mm512_add_epi32((__m512i)v, _mm512_madd_epi16((__m512i)pairs, _mm512_set1_epi16(weight)));
  }
};

#if defined(__AVX512VNNI__)
// A dot product takes four cycles (Zen 5) and two begin in each: eight sums or more hide that.
template <class Level, int Bits>
requires std::is_base_of_v<isa::avx512_vnni, Level>
struct CodeSums<Level, Bits> {
  static constexpr index most = 128;
  static constexpr int halves = Bits == 4 ? 2 : 1;
  static constexpr int columns(int rows) { return rows >= 8 ? 2 : 4; }
  __v16si v;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v((__v16si)_mm512_set1_epi32(start)) {}
  INLAY_INLINE void open() {}
  template <int> INLAY_INLINE void add(CodeBytes<Level> codes, CodeInputs<Level> inputs) {
    v = (__v16si)_mm512_dpbusd_epi32((__m512i)v, codes.v, inputs.v);
  }
  INLAY_INLINE void close() {}
  INLAY_INLINE Floats<Level> to_floats() const { return _mm512_cvtepi32_ps((__m512i)v); }
};
#endif

}  // namespace inlay::simd
