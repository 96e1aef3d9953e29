// How a masked code becomes a float:
//
//   converted   from int32, in place in its half of the word
//   subnormal   it is one. Floats count in steps of 2^-149 as long as the exponent's bits are 0 or 1, so that
//               bits 0 .. 23 of a word, masked, are q * 2^(place - 149). That saves the conversion, a third
//               of the work. DAZ must be off (KeepSubnormals), and it pays where has_fast_subnormals.
#pragma once

namespace inlay::simd {

enum class CodeForm { converted, subnormal };

// Codes of so many bits, or of four that name bytes of a codebook. Of five and six the word has the lower four.
enum class Codes { four, five, six, eight, named, narrow };
// A narrow codebook's bytes are no further apart than this: MXFP4's are 24.
inline constexpr int narrow_width = 32;
template <Codes Kind> inline constexpr bool of_codebook = Kind == Codes::named || Kind == Codes::narrow;
template <Codes Kind>
inline constexpr int bits_of = Kind == Codes::eight  ? 8
                               : Kind == Codes::six  ? 6
                               : Kind == Codes::five ? 5
                                                     : 4;
// Codes of a word.
template <Codes Kind> inline constexpr int codes_of_word = Kind == Codes::eight ? 4 : 8;
template <Codes Kind> inline constexpr int upper_bits = Kind == Codes::six ? 2 : Kind == Codes::five ? 1 : 0;
// Nibbles become bytes before they are used: two words of four.
template <Codes Kind> inline constexpr bool become_bytes = Kind == Codes::named || upper_bits<Kind> != 0;

}  // namespace inlay::simd
