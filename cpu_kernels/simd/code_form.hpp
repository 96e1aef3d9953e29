// How a masked code becomes a float:
//
//   converted   from int32, in place in its half of the word
//   subnormal   it is one. Floats count in steps of 2^-149 as long as the exponent's bits are 0 or 1, so that
//               bits 0 .. 23 of a word, masked, are q * 2^(place - 149). That saves the conversion, a third
//               of the work. DAZ must be off (KeepSubnormals), and it pays where has_fast_subnormals.
#pragma once

namespace inlay::simd {

enum class CodeForm { converted, subnormal };

}  // namespace inlay::simd
