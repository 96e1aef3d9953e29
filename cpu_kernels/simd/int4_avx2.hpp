// Eight words.
#pragma once

#include "cpu_kernels/simd/intrinsics.hpp"

#include "cpu_kernels/simd/int4.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct CodePart<Level> {
  __m256i v;
  static INLAY_INLINE CodePart load(const std::uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  INLAY_INLINE void store(std::uint8_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
};

template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct CodeWords<Level> {
  __m256i v;
  static INLAY_INLINE CodeWords load(const std::uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
  }
  template <CodeForm Form, Codes Kind, int J> INLAY_INLINE Floats<Level> code() const {
    const __m256i part = code_shift<Form, Kind>(J) == 0 ? v : _mm256_srli_epi32(v, code_shift<Form, Kind>(J));
    const __m256i bits = _mm256_and_si256(part, _mm256_set1_epi32(code_mask<Form, Kind, J>));
    return Form == CodeForm::subnormal ? _mm256_castsi256_ps(bits) : _mm256_cvtepi32_ps(bits);
  }
  template <Codes Kind, int H> INLAY_INLINE CodePart<Level> part() const {
    if constexpr (Kind == Codes::four) return {_mm256_and_si256(H ? _mm256_srli_epi16(v, 4) : v, _mm256_set1_epi8(15))};
    // Bytes 2H and 2H + 1 of each word, with zeros between.
    const __m128i two =
        _mm_add_epi8(_mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1), _mm_set1_epi16(2 * H));
    return {_mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(two))};
  }
};

template <class Level, Codes Kind>
requires std::is_base_of_v<isa::avx2, Level>
struct UpperBits<Level, Kind> {
  __v8su v;
  static INLAY_INLINE UpperBits load(const std::uint8_t* p) {
    if constexpr (Kind == Codes::six)
      return {(__v8su)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
    return {(__v8su)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
  }
  template <int H> INLAY_INLINE CodePart<Level> over(CodeWords<Level> words) const {
    return {_mm256_or_si256(words.template part<Codes::four, H>().v, (__m256i)upper_of_bytes<Kind, H>(v))};
  }
};

// Of five bits each byte of a word gets the half of the channel's upper bits that its own is in, upper nibble first:
//
//   | s7 .. s4 ..... | s7 .. s4 ..... | s3 .. s0 ..... | s3 .. s0 ..... |     byte 3 .. 0
//
// where one bit of each is left, its value is 16 at least.
template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct UpperBits<Level, Codes::five> {
  __m256i v;
  static INLAY_INLINE UpperBits load(const std::uint8_t* p) {
    const __m256i four_of_each_half = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5,
                                                       5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
    long long eight;
    std::memcpy(&eight, p, sizeof eight);
    const __m256i of_bytes = _mm256_shuffle_epi8(_mm256_set1_epi64x(eight), four_of_each_half);
    return {_mm256_blend_epi16(of_bytes, _mm256_slli_epi16(of_bytes, 4), 0b01010101)};
  }
  template <int H> INLAY_INLINE CodePart<Level> over(CodeWords<Level> words) const {
    const __m256i bits = _mm256_and_si256(v, _mm256_set1_epi16(H ? 0x8020 - 0x10000 : 0x4010));
    return {_mm256_or_si256(words.template part<Codes::four, H>().v, _mm256_min_epu8(bits, _mm256_set1_epi8(16)))};
  }
};

// The products take named codes as values, narrow ones above the least of them.
template <class Level, Codes Kind>
requires(std::is_base_of_v<isa::avx2, Level>&& of_codebook<Kind>) struct CodeTable<Level, Kind> {
  __m256i above_least, factors;
  INLAY_INLINE explicit CodeTable(const NamedBytes& named)
      : above_least(in_both_halves(named.above_least)),
        factors(Kind == Codes::narrow ? above_least : in_both_halves(named.value)) {}
  template <int H> INLAY_INLINE CodeWords<Level> bytes(CodeWords<Level> words) const {
    return {_mm256_shuffle_epi8(above_least, words.template part<Codes::four, H>().v)};
  }
  template <int H> INLAY_INLINE CodePart<Level> part(CodeWords<Level> words) const {
    return {_mm256_shuffle_epi8(factors, words.template part<Codes::four, H>().v)};
  }

 private:
  static INLAY_INLINE __m256i in_both_halves(const void* sixteen) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(sixteen)));
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
template <class Level, Codes Kind>
requires(std::is_base_of_v<isa::avx2, Level>&& pairs_fit<Kind>) struct CodeSums<Level, Kind> : TwoParts {
  static constexpr index most = slots_of_pairs<Kind>;
  static constexpr int columns(int) { return 2; }
  __v8si v;
  __v16hi pairs;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t) : v((__v8si)_mm256_setzero_si256()) {}
  INLAY_INLINE void open() { pairs = (__v16hi)_mm256_setzero_si256(); }
  template <int> INLAY_INLINE void add(CodePart<Level> codes, CodeInputs<Level> inputs) {
    pairs = (__v16hi)_mm256_add_epi16((__m256i)pairs, _mm256_maddubs_epi16(codes.v, inputs.v));
    // Or GCC 12 adds the products of both parts first, and has no registers for so many.
    asm("" : "+x"(pairs));
  }
  INLAY_INLINE void close() {
    v = (__v8si)_mm256_add_epi32((__m256i)v, _mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(1)));
  }
  // Not before: AVX2 has no registers for these beside the pairs.
  INLAY_INLINE Floats<Level> to_floats(std::int32_t start) const {
    return _mm256_cvtepi32_ps(_mm256_add_epi32((__m256i)v, _mm256_set1_epi32(start)));
  }
};

// Of named values the signs go over to x. A pair is 2 * 128 * 127 at most, and another one no longer fits.
template <class Level, Codes Kind>
requires(std::is_base_of_v<isa::avx2, Level> && !pairs_fit<Kind>) struct CodeSums<Level, Kind> : TwoParts {
  static constexpr bool from_least = Kind != Codes::named;  // else values: nothing to take off
  static constexpr index most = 128;
  static constexpr int columns(int) { return 2; }
  __v8si v;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v((__v8si)_mm256_set1_epi32(from_least ? start : 0)) {}
  INLAY_INLINE void open() {}
  template <int> INLAY_INLINE void add(CodePart<Level> codes, CodeInputs<Level> inputs) {
    v = (__v8si)_mm256_add_epi32((__m256i)v, products(codes.v, inputs.v));
    asm("" : "+x"(v));
  }
  INLAY_INLINE void close() {}
  INLAY_INLINE Floats<Level> to_floats(std::int32_t) const { return _mm256_cvtepi32_ps((__m256i)v); }

 private:
  static INLAY_INLINE __m256i products(__m256i codes, __m256i x) {
    if constexpr (Kind == Codes::eight) return _mm256_madd_epi16(codes, x);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
};

// Within each half of a register: the even codes of two words, then the odd ones.
template <class Level, Codes Kind>
requires(!std::is_base_of_v<isa::scalar, Level> && CodeSums<Level, Kind>::word_bytes == 8 &&
         Kind != Codes::eight) INLAY_INLINE void arrange(const std::int8_t* bytes, std::int8_t* to) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_shuffle_epi8(all, order));
}
template <class Level, Codes Kind>
requires(!std::is_base_of_v<isa::scalar, Level> && Kind == Codes::eight &&
         CodeSums<Level, Kind>::word_bytes == 8) INLAY_INLINE void arrange(const std::int8_t* bytes, std::int8_t* to) {
  const __m128i* const from = reinterpret_cast<const __m128i*>(bytes);
  for (int i = 0; i < 2; ++i)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + i, _mm256_cvtepi8_epi16(_mm_loadu_si128(from + i)));
}

}  // namespace inlay::simd
