// How a masked code becomes a float:
//
//   converted   from int32, in place in its half of the word
//   subnormal   it is one. Floats count in steps of 2^-149 as long as the exponent's bits are 0 or 1, so that
//               bits 0 .. 23 of a word, masked, are q * 2^(place - 149). That saves the conversion, a third
//               of the work. DAZ must be off (KeepSubnormals), and it pays where has_fast_subnormals.
#pragma once

namespace inlay::simd {

enum class CodeForm { converted, subnormal };

// What a word holds: codes of four bits, of eight, or of four that name bytes of a codebook.
enum class Codes { four, eight, named };
template <Codes Kind> inline constexpr int bits_of = Kind == Codes::eight ? 8 : 4;

}  // namespace inlay::simd
