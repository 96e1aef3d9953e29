// Packed codes: one 32-bit word of 4-bit or 8-bit codes for each f32 lane of Floats<Level>, the first
// code in the lowest bits.
//
//   CodeWords<Level>   load(p); in_place<Bits, J>(): code J of every word as floats, times
//                      2^(Bits * (J % (16 / Bits))): the bits stay where they are in their half of the
//                      word, which saves a shift for each code. in_place_factor undoes it in x.
//   CodeBytes<...>     a word's codes spread to unsigned bytes, once for several rows of x
//   CodeSums<Level>    int32 lanes: add(bytes, x) adds the dot product of the word's codes and the
//                      activations at x, to_floats() converts
//
// The activations of one word are signed bytes in the order in which CodeBytes has the codes:
//
//   4 bits   x0 x2 x4 x6 x1 x3 x5 x7     (low nibbles, then high nibbles)
//   8 bits   x0 x1 x2 x3
//
// Sums are exact: nothing saturates while |x| <= 127. Without VNNI an 8-bit code is two nibbles,
// because 255 * 127 * 2 does not fit the 16 bits of VPMADDUBSW.
#pragma once

#include <cstring>

#include "cpu_kernels/simd/floats.hpp"

namespace inlay::simd {

template <class Level> struct CodeWords;
template <class Level, int Bits> struct CodeBytes;
template <class Level> struct CodeSums;

// The order above: where the activation of code j lies.
template <int Bits> INLAY_INLINE constexpr index activation_place(index j) { return Bits == 8 ? j : j % 2 * 4 + j / 2; }

// What in_place multiplies the code of slot s by is taken out of x: exact, since it is a power of two.
template <int Bits> INLAY_INLINE constexpr float in_place_factor(index s) {
  return 1.0f / static_cast<float>(1 << (Bits * (s % (16 / Bits))));
}
template <int Bits, int J> inline constexpr int in_place_mask = ((1 << Bits) - 1) << (Bits * (J % (16 / Bits)));

template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct CodeWords<Level> {
  std::uint32_t v;
  static INLAY_INLINE CodeWords load(const std::uint8_t* p) {
    CodeWords words;
    std::memcpy(&words.v, p, sizeof(words.v));
    return words;
  }
  template <int Bits, int J> INLAY_INLINE Floats<Level> in_place() const {
    const std::uint32_t half = Bits * J < 16 ? v : v >> 16;
    return Floats<Level>(static_cast<float>(half & in_place_mask<Bits, J>));
  }
};
template <class Level, int Bits>
requires std::is_base_of_v<isa::scalar, Level>
struct CodeBytes<Level, Bits> {
  std::uint32_t v;
  INLAY_INLINE explicit CodeBytes(CodeWords<Level> words) : v(words.v) {}
};
template <class Level>
requires std::is_base_of_v<isa::scalar, Level>
struct CodeSums<Level> {
  std::int32_t v = 0;
  template <int Bits> INLAY_INLINE void add(CodeBytes<Level, Bits> codes, const std::int8_t* x) {
    for (index j = 0; j < 32 / Bits; ++j)
      v += static_cast<std::int32_t>(codes.v >> (Bits * j) & ((1u << Bits) - 1)) * x[activation_place<Bits>(j)];
  }
  INLAY_INLINE Floats<Level> to_floats() const { return Floats<Level>(static_cast<float>(v)); }
};

INLAY_INLINE std::int32_t four_bytes(const std::int8_t* p) {
  std::int32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

}  // namespace inlay::simd

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "cpu_kernels/simd/int4_avx2.hpp"
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "cpu_kernels/simd/int4_avx512.hpp"
#endif
