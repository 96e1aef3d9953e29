// Sixteen words.
#pragma once

#include "cpu_kernels/simd/intrinsics.hpp"

#include "cpu_kernels/simd/int4.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct CodePart<Level> {
  __m512i v;
};

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeWords<Level> {
  __m512i v;
  static INLAY_INLINE CodeWords load(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  template <CodeForm Form, Codes Kind, int J> INLAY_INLINE Floats<Level> code() const {
    constexpr int shift = code_shift<Form, Kind>(J);  // without optimisation the intrinsic is a macro
    const __m512i part = shift == 0 ? v : _mm512_srli_epi32(v, shift);
    const __m512i bits = _mm512_and_si512(part, _mm512_set1_epi32(code_mask<Form, Kind, J>));
    return Form == CodeForm::subnormal ? _mm512_castsi512_ps(bits) : _mm512_cvtepi32_ps(bits);
  }
  template <Codes Kind, int H> INLAY_INLINE CodePart<Level> part() const {
    if constexpr (Kind == Codes::four) return {_mm512_and_si512(H ? _mm512_srli_epi16(v, 4) : v, _mm512_set1_epi8(15))};
    if constexpr (std::is_base_of_v<isa::avx512_vnni, Level>) return {v};
    const __m128i two =
        _mm_add_epi8(_mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1), _mm_set1_epi16(2 * H));
    return {_mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(two))};
  }
};

template <class Level, Codes Kind>
requires std::is_base_of_v<isa::avx512, Level>
struct UpperBits<Level, Kind> {
  __v16su v;
  static INLAY_INLINE UpperBits load(const std::uint8_t* p) {
    if constexpr (Kind == Codes::six)
      return {(__v16su)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
    return {(__v16su)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  template <int H> INLAY_INLINE CodePart<Level> over(CodeWords<Level> words) const {
    return {_mm512_or_si512(words.template part<Codes::four, H>().v, (__m512i)upper_of_bytes<Kind, H>(v))};
  }
};

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeTable<Level, Codes::named> {
  __m512i v;
  INLAY_INLINE explicit CodeTable(const NamedBytes& named)
      : v(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(named.above_least)))) {}
  template <int H> INLAY_INLINE CodeWords<Level> bytes(CodeWords<Level> words) const {
    return {_mm512_shuffle_epi8(v, words.template part<Codes::four, H>().v)};
  }
  template <int H> INLAY_INLINE CodePart<Level> part(CodeWords<Level> words) const {
    if constexpr (std::is_base_of_v<isa::avx512_vnni, Level>) return {bytes<H>(words).v};
    // Nibble H of each half of the words; an index with its upper bit set gives the zero above it.
    const __m512i shifted = H ? _mm512_srli_epi16(words.v, 4 * H) : words.v;
    const __m512i nibbles = _mm512_and_si512(shifted, _mm512_set1_epi16(15));
    return {_mm512_shuffle_epi8(v, _mm512_or_si512(nibbles, _mm512_set1_epi16(-0x8000)))};
  }
};

template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct CodeInputs<Level> {
  __m512i v;
  static INLAY_INLINE CodeInputs load(const std::int8_t* x) { return {_mm512_set1_epi32(four_bytes(x))}; }
};

// As at AVX2.
template <class Level, Codes Kind>
requires(std::is_base_of_v<isa::avx512, Level> && !std::is_base_of_v<isa::avx512_vnni, Level> &&
         pairs_fit<Kind>) struct CodeSums<Level, Kind> : TwoParts {
  static constexpr index most = slots_of_pairs<Kind>;
  static constexpr int columns(int) { return 2; }
  __v16si v;
  __v32hi pairs;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t) : v((__v16si)_mm512_setzero_si512()) {}
  INLAY_INLINE void open() { pairs = (__v32hi)_mm512_setzero_si512(); }
  template <int> INLAY_INLINE void add(CodePart<Level> codes, CodeInputs<Level> inputs) {
    pairs = (__v32hi)_mm512_add_epi16((__m512i)pairs, _mm512_maddubs_epi16(codes.v, inputs.v));
    asm("" : "+v"(pairs));
  }
  INLAY_INLINE void close() {
    v = (__v16si)_mm512_add_epi32((__m512i)v, _mm512_madd_epi16((__m512i)pairs, _mm512_set1_epi16(1)));
  }
  INLAY_INLINE Floats<Level> to_floats(std::int32_t start) const {
    return _mm512_cvtepi32_ps(_mm512_add_epi32((__m512i)v, _mm512_set1_epi32(start)));
  }
};

template <class Level, Codes Kind>
requires(std::is_base_of_v<isa::avx512, Level> && !std::is_base_of_v<isa::avx512_vnni, Level> &&
         !pairs_fit<Kind>) struct CodeSums<Level, Kind>
    : std::conditional_t<Kind == Codes::eight, TwoParts, FourParts> {
  static constexpr index most = 128;
  static constexpr int columns(int) { return 2; }
  __v16si v;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v((__v16si)_mm512_set1_epi32(start)) {}
  INLAY_INLINE void open() {}
  template <int> INLAY_INLINE void add(CodePart<Level> codes, CodeInputs<Level> inputs) {
    v = (__v16si)_mm512_add_epi32((__m512i)v, _mm512_madd_epi16(codes.v, inputs.v));
    asm("" : "+v"(v));
  }
  INLAY_INLINE void close() {}
  INLAY_INLINE Floats<Level> to_floats(std::int32_t) const { return _mm512_cvtepi32_ps((__m512i)v); }
};

template <class Level, Codes Kind>
requires(CodeSums<Level, Kind>::word_bytes == 16) INLAY_INLINE void arrange(const std::int8_t* bytes, std::int8_t* to) {
  const __m128i halves_side_by_side = _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  const __m128i* const from = reinterpret_cast<const __m128i*>(bytes);
  for (int i = 0; i < 2; ++i)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + i,
                        _mm256_cvtepi8_epi16(_mm_shuffle_epi8(_mm_loadu_si128(from + i), halves_side_by_side)));
}

#if defined(__AVX512VNNI__)
// A dot product takes four cycles (Zen 5) and two begin in each: eight sums or more hide that.
template <class Level, Codes Kind>
requires std::is_base_of_v<isa::avx512_vnni, Level>
struct CodeSums<Level, Kind> : std::conditional_t<Kind == Codes::eight, OnePart, TwoParts> {
  static constexpr index most = 128;
  static constexpr int columns(int rows) { return rows >= 4 ? 2 : 4; }
  __v16si v;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v((__v16si)_mm512_set1_epi32(start)) {}
  INLAY_INLINE void open() {}
  template <int> INLAY_INLINE void add(CodePart<Level> codes, CodeInputs<Level> inputs) {
    v = (__v16si)_mm512_dpbusd_epi32((__m512i)v, codes.v, inputs.v);
  }
  INLAY_INLINE void close() {}
  INLAY_INLINE Floats<Level> to_floats(std::int32_t) const { return _mm512_cvtepi32_ps((__m512i)v); }
};
#endif

}  // namespace inlay::simd
