// Packed codes: one 32-bit word of 4-bit or 8-bit codes for each f32 lane of Floats<Level>, the first
// code in the lowest bits.
//
//   CodeWords<Level>          load(p)
//   UpperBits<Level, Kind>    of codes of five and six bits: load(p); over<H>(words) is part H of the words with them
//                             above its nibbles
//   StepWords<Level, Kind>    words, and upper bits where there are some: load_words<Level, Kind>(p, place) of the
//                             words at p, which are register `place` of a panel's
//   CodeTable<Level, Kind>    the codebook of Codes::named in a register; of other codes, nothing
//   OpenCodes<Level, Kind>    (words, table): code<Form, J>() is code J of every word as floats, times
//                             2^code_exponent<Form, Kind>(J): bits are not moved more than they must be, and
//                             who multiplies takes the power out of x. A named code is its byte above the least
//   code_part<Kind, H>        (words, table): part H of their codes as the products take them
//   CodeInputs<Level>         load(x): four bytes of activations, seen by every lane
//   RowInputs<Level, Kind, R> load(x): those of a word of R rows, side by side; row<r, H>() is what part H of the codes
//                             is multiplied by, which add takes
//   CodeSums<Level, Kind>     int32 lanes: CodeSums(start). open(), then add<H>(part, inputs) of each of the `parts` of
//                             words, for at most `most` slots; close(). to_floats(start) converts `start` + all
//                             products, with the start in from whichever of the two is the better time.
//                             columns(rows) is how many registers of words a tile of rows multiplies at once
//
// The activations of one word are `word_bytes`, and those of part H begin at byte place(H) of them. Codes and
// activations are bytes; where no dot product takes bytes of 8 bits, they are pairs of 16 bits:
//
//   4 to 6 bits, named  x0 x2 x4 x6 | x1 x3 x5 x7     low nibbles, then high nibbles
//   8 bits              x0 x1 x2 x3                   for both nibbles of its codes, where they are parts (NEON)
//   8 bits, AVX2*       x0 x1 | x2 x3                 two bytes each
//   named, AVX-512*     x0 x4 | x1 x5 | x2 x6 | x3 x7 two bytes each: one nibble of each half of the word
//
//   * without VNNI
//
// arrange<Level, Kind>(bytes, to) brings a block of bytes into this order.
//
// Sums are exact while |x| <= 127. VNNI adds to the int32 themselves. VPMADDUBSW gives pairs in 16 bits, which saturate
// beyond 32767: one of 4-bit codes is 2 * 15 * 127 = 3810 at most, so that eight fit (30480), 32 slots, and only these
// are widened; of 5-bit codes four of 7874 fit, 16 slots, and of 6-bit codes two of 16002, 8 slots. One of 8-bit codes,
// 2 * 255 * 127, does not fit; VPMADDWD has int32 sums, and half as many products. Two
// nibbles with sums of their own take as many instructions, and two more to join them. Named codes are bytes above the
// least of them: those of a narrow codebook fit as those of 5 bits do, the others are added up as codes of 8 bits. Or
// they are values as they are, where bytes above 127 meet no signed ones (NEON), and at AVX2, where their signs go over
// to x: one pair, 2 * 128 * 127, fits.
#pragma once

#include <bit>
#include <cstring>

#include "cpu_kernels/simd/code_form.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/four_bytes.hpp"

namespace inlay::simd {

template <class Level> struct CodeWords;
template <class Level> struct CodePart;
template <class Level> struct CodeInputs;
template <class Level, Codes Kind> struct UpperBits;
template <class Level, Codes Kind> struct CodeSums;

// A codebook of 16 values: they are named from the least on, or as they are.
struct NamedBytes {
  std::uint8_t above_least[16] = {};
  std::int8_t value[16] = {};
  int least = 0;
  bool narrow = true;  // Codes::narrow will do

  NamedBytes() = default;
  explicit NamedBytes(const std::int8_t* values) : least(values[0]) {
    for (int i = 0; i < 16; ++i) least = values[i] < least ? values[i] : least;
    for (int i = 0; i < 16; ++i) above_least[i] = static_cast<std::uint8_t>((value[i] = values[i]) - least);
    for (const std::uint8_t above : above_least) narrow = narrow && above <= narrow_width;
  }
};
template <class Level, Codes Kind> struct CodeTable {
  INLAY_INLINE explicit CodeTable(const NamedBytes&) {}
};

template <class Level, Codes Kind> struct WordsAndUpperBits {
  CodeWords<Level> words;
  UpperBits<Level, Kind> upper;
};
template <class Level, Codes Kind>
using StepWords = std::conditional_t<upper_bits<Kind> == 0, CodeWords<Level>, WordsAndUpperBits<Level, Kind>>;
// Upper bits lie behind the words of all sixteen channels.
template <class Level, Codes Kind> INLAY_INLINE StepWords<Level, Kind> load_words(const std::uint8_t* p, index place) {
  if constexpr (upper_bits<Kind> == 0) {
    return CodeWords<Level>::load(p);
  } else {
    constexpr index lanes = Floats<Level>::size, words = 16 * 4;
    const std::uint8_t* const step = p - place * lanes * 4;
    return {CodeWords<Level>::load(p), UpperBits<Level, Kind>::load(step + words + place * lanes * upper_bits<Kind>)};
  }
}

template <Codes Kind, int H, class Level>
INLAY_INLINE CodePart<Level> code_part(StepWords<Level, Kind> words, const CodeTable<Level, Kind>& table) {
  if constexpr (of_codebook<Kind>)
    return table.template part<H>(words);
  else if constexpr (upper_bits<Kind> != 0)
    return words.upper.template over<H>(words.words);
  else
    return words.template part<Kind, H>();
}

template <class Level, Codes Kind> struct OpenCodes {
  CodeWords<Level> words;
  OpenCodes() = default;
  INLAY_INLINE OpenCodes(CodeWords<Level> words, const CodeTable<Level, Kind>&) : words(words) {}
  template <CodeForm Form, int J> INLAY_INLINE Floats<Level> code() const {
    return words.template code<Form, Kind, J>();
  }
};
template <class Level, Codes Kind>
requires become_bytes<Kind>
struct OpenCodes<Level, Kind> {
  CodeWords<Level> even, odd;
  OpenCodes() = default;
  INLAY_INLINE OpenCodes(StepWords<Level, Kind> words, const CodeTable<Level, Kind>& table)
      : even(bytes<0>(words, table)), odd(bytes<1>(words, table)) {}
  template <int H>
  static INLAY_INLINE CodeWords<Level> bytes(StepWords<Level, Kind> words, const CodeTable<Level, Kind>& table) {
    if constexpr (Kind == Codes::named)
      return table.template bytes<H>(words);
    else
      return {code_part<Kind, H>(words, table).v};
  }
  template <CodeForm Form, int J> INLAY_INLINE Floats<Level> code() const {
    return (J % 2 ? odd : even).template code<Form, Codes::eight, J / 2>();
  }
};

// The order above: the place of code j's activation among those of its word.
template <Codes Kind> INLAY_INLINE constexpr index activation_place(index j) {
  return Kind == Codes::eight ? j : j % 2 * 4 + j / 2;
}

// Slots whose products in pairs of 16 bits may be added up: so many pairs fit, two in each word.
template <Codes Kind> inline constexpr bool pairs_fit = Kind != Codes::eight&& Kind != Codes::named;
// Levels to which narrow codebooks are codes of their own.
template <class Level> inline constexpr bool has_narrow_codes = Floats<Level>::size == 8;
template <Codes Kind>
inline constexpr index largest_code = Kind == Codes::narrow ? narrow_width : (1 << bits_of<Kind>)-1;
template <Codes Kind> inline constexpr index slots_of_pairs = 0x7fff / (2 * largest_code<Kind> * 127) / 2 * 8;

// A word's parts and its activations.
struct OnePart {
  static constexpr int parts = 1;
  static constexpr index word_bytes = 4;
  static constexpr index place(int) { return 0; }
};
struct TwoParts {
  static constexpr int parts = 2;
  static constexpr index word_bytes = 8;
  static constexpr index place(int part) { return 4 * part; }
};
struct FourParts {
  static constexpr int parts = 4;
  static constexpr index word_bytes = 16;
  static constexpr index place(int part) { return 4 * part; }
};

template <class Level, Codes Kind, int R> struct RowInputs {
  const std::int8_t* x;
  static INLAY_INLINE RowInputs load(const std::int8_t* x) { return {x}; }
  template <int Row, int H> INLAY_INLINE CodeInputs<Level> row() const {
    using Sums = CodeSums<Level, Kind>;
    return CodeInputs<Level>::load(x + Row * Sums::word_bytes + Sums::place(H));
  }
};

inline constexpr index arranged = 32;  // bytes that arrange takes at a time, and makes 64 of at most
template <class Level, Codes Kind> INLAY_INLINE void arrange(const std::int8_t* bytes, std::int8_t* to) {
  constexpr index codes = codes_of_word<Kind>;
  for (index i = 0; i < arranged; ++i) to[i / codes * codes + activation_place<Kind>(i % codes)] = bytes[i];
}

// Code j: the word is shifted down by code_shift, and the code's lowest bit is then bit code_place.
template <CodeForm Form, Codes Kind> INLAY_INLINE constexpr int code_shift(index j) {
  constexpr int bits = bits_of<Kind>;
  if (Form == CodeForm::converted) return bits * j < 16 ? 0 : 16;
  return bits * (j + 1) <= 24 ? 0 : 8;
}
template <CodeForm Form, Codes Kind> INLAY_INLINE constexpr int code_place(index j) {
  if (become_bytes<Kind>) return code_place<Form, Codes::eight>(j / 2);
  return bits_of<Kind> * static_cast<int>(j) - code_shift<Form, Kind>(j);
}
template <CodeForm Form> inline constexpr int min_exponent = Form == CodeForm::converted ? 0 : -149;
template <CodeForm Form, Codes Kind> INLAY_INLINE constexpr int code_exponent(index j) {
  return min_exponent<Form> + code_place<Form, Kind>(j);
}
template <CodeForm Form, Codes Kind, int J>
inline constexpr int code_mask = ((1 << bits_of<Kind>)-1) << code_place<Form, Kind>(J);

// A word's upper bits, where those of its bytes belong: codes 0 2 4 6 (H = 0) or 1 3 5 7.
//
//   6 bits   u = | s7 s3 s6 s2 s5 s1 s4 s0 |     z = u | u << 14                  z << 4   and   z        & 30303030
//   5 bits   u = | s7 s6 s5 s4 s3 s2 s1 s0 |     t = u | u << 6, z = t | t << 12  z << 4   and   z << 3   & 10101010
//
// What else is shifted meets no bit of the mask.
template <Codes Kind, int H, class Word> INLAY_INLINE Word upper_of_bytes(Word u) {
  if constexpr (upper_bits<Kind> == 2) {
    const Word z = u | u << 14;
    return (H ? z : z << 4) & 0x30303030u;
  } else {
    const Word t = u | u << 6, z = t | t << 12;
    return z << (H ? 3 : 4) & 0x10101010u;
  }
}

template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct CodePart<Level> {
  std::uint32_t v;
};
template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct CodeWords<Level> {
  std::uint32_t v;
  static INLAY_INLINE CodeWords load(const std::uint8_t* p) {
    CodeWords words;
    std::memcpy(&words.v, p, sizeof(words.v));
    return words;
  }
  template <CodeForm Form, Codes Kind, int J> INLAY_INLINE Floats<Level> code() const {
    const std::uint32_t bits = v >> code_shift<Form, Kind>(J) & code_mask<Form, Kind, J>;
    return Floats<Level>(Form == CodeForm::subnormal ? std::bit_cast<float>(bits) : static_cast<float>(bits));
  }
  template <Codes Kind, int H> INLAY_INLINE CodePart<Level> part() const {
    return {Kind == Codes::eight ? v : v >> 4 * H & 0x0f0f0f0fu};
  }
};
template <class Level, Codes Kind>
requires std::is_base_of_v<isa::scalar, Level>
struct UpperBits<Level, Kind> {
  std::uint32_t v;
  static INLAY_INLINE UpperBits load(const std::uint8_t* p) {
    return {upper_bits<Kind> == 1 ? p[0] : static_cast<std::uint32_t>(p[0] | p[1] << 8)};
  }
  template <int H> INLAY_INLINE CodePart<Level> over(CodeWords<Level> words) const {
    return {words.template part<Codes::four, H>().v | upper_of_bytes<Kind, H>(v)};
  }
};
template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct CodeTable<Level, Codes::named> {
  std::uint8_t v[16];
  INLAY_INLINE explicit CodeTable(const NamedBytes& named) { std::memcpy(v, named.above_least, sizeof(v)); }
  template <int H> INLAY_INLINE CodeWords<Level> bytes(CodeWords<Level> words) const {
    std::uint32_t named = 0;
    for (int j = 0; j < 4; ++j) named |= std::uint32_t{v[words.v >> (8 * j + 4 * H) & 15]} << 8 * j;
    return {named};
  }
  template <int H> INLAY_INLINE CodePart<Level> part(CodeWords<Level> words) const { return {bytes<H>(words).v}; }
};
template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct CodeInputs<Level> {
  const std::int8_t* x;
  static INLAY_INLINE CodeInputs load(const std::int8_t* x) { return {x}; }
};
template <class Level, Codes Kind>
requires std::is_base_of_v<isa::scalar, Level>
struct CodeSums<Level, Kind> : std::conditional_t<Kind == Codes::eight, OnePart, TwoParts> {
  static constexpr index most = 128;
  static constexpr int columns(int) { return 16; }
  std::int32_t v;
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v(start) {}
  INLAY_INLINE void open() {}
  template <int> INLAY_INLINE void add(CodePart<Level> codes, CodeInputs<Level> inputs) {
    for (index j = 0; j < 4; ++j) v += static_cast<std::int32_t>(codes.v >> 8 * j & 255) * inputs.x[j];
  }
  INLAY_INLINE void close() {}
  INLAY_INLINE Floats<Level> to_floats(std::int32_t) const { return Floats<Level>(static_cast<float>(v)); }
};

}  // namespace inlay::simd

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "cpu_kernels/simd/int4_avx2.hpp"
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "cpu_kernels/simd/int4_avx512.hpp"
#endif
#if defined(__aarch64__)
#include "cpu_kernels/simd/int4_neon.hpp"
#endif
