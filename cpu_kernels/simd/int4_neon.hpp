// Four words.
#pragma once

#include "cpu_kernels/simd/int4.hpp"
#include "cpu_kernels/simd/intrinsics.hpp"

namespace inlay::simd {

template <class Level>
requires std::is_base_of_v<isa::neon, Level>
struct CodePart<Level> {
  uint8x16_t v;
};

// Whether bytes above 127 meet signed ones: else 8-bit codes are two nibbles.
template <class Level> inline constexpr bool has_mixed_dot = std::is_base_of_v<isa::neon_i8mm, Level>;

template <class Level>
requires std::is_base_of_v<isa::neon, Level>
struct CodeWords<Level> {
  uint8x16_t v;
  static INLAY_INLINE CodeWords load(const std::uint8_t* p) { return {vld1q_u8(p)}; }
  template <CodeForm Form, int Bits, int J> INLAY_INLINE Floats<Level> code() const {
    constexpr int shift = code_shift<Form, Bits>(J);
    uint32x4_t bits = vreinterpretq_u32_u8(v);
    if constexpr (shift > 0) bits = vshrq_n_u32(bits, shift);
    bits = vandq_u32(bits, vdupq_n_u32(code_mask<Form, Bits, J>));
    return Form == CodeForm::subnormal ? vreinterpretq_f32_u32(bits) : vcvtq_f32_u32(bits);
  }
  template <int Bits, int H> INLAY_INLINE CodePart<Level> part() const {
    if constexpr (Bits == 8 && has_mixed_dot<Level>)
      return {v};
    else
      return {H ? vshrq_n_u8(v, 4) : vandq_u8(v, vdupq_n_u8(15))};
  }
};

template <class Level>
requires std::is_base_of_v<isa::neon, Level>
struct CodeInputs<Level> {
  int8x16_t v;
  static INLAY_INLINE CodeInputs load(const std::int8_t* x) {
    return {vreinterpretq_s8_s32(vdupq_n_s32(four_bytes(x)))};
  }
};

// sums + the four products of each word, codes below 128 where the dot product is not mixed.
template <class Level> INLAY_INLINE int32x4_t add_products(int32x4_t sums, uint8x16_t codes, int8x16_t x) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  if constexpr (has_mixed_dot<Level>) return vusdotq_s32(sums, codes, x);
#endif
  const int8x16_t nibbles = vreinterpretq_s8_u8(codes);
#if defined(__ARM_FEATURE_DOTPROD)
  if constexpr (std::is_base_of_v<isa::neon_dotprod, Level>) return vdotq_s32(sums, nibbles, x);
#endif
  // Two products are 3810 at most.
  const int16x8_t low = vmull_s8(vget_low_s8(nibbles), vget_low_s8(x)), high = vmull_high_s8(nibbles, x);
  return vpadalq_s16(sums, vpaddq_s16(low, high));
}

template <class Level, int Bits>
requires std::is_base_of_v<isa::neon, Level>
struct CodeSums<Level, Bits> : std::conditional_t<Bits == 4, TwoParts, OnePart> {
  static constexpr bool nibbles = Bits == 8 && !has_mixed_dot<Level>;
  static constexpr index most = 128;
  static constexpr int parts = Bits == 4 || nibbles ? 2 : 1;
  static constexpr int columns(int) { return 4; }
  int32x4_t v, high;  // high: of the upper nibbles of codes
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v(vdupq_n_s32(start)) {}
  INLAY_INLINE void open() { high = vdupq_n_s32(0); }
  template <int H> INLAY_INLINE void add(CodePart<Level> codes, CodeInputs<Level> inputs) {
    int32x4_t& sums = H && nibbles ? high : v;
    sums = add_products<Level>(sums, codes.v, inputs.v);
  }
  INLAY_INLINE void close() {
    if (nibbles) v = vaddq_s32(v, vshlq_n_s32(high, 4));
  }
  INLAY_INLINE Floats<Level> to_floats(std::int32_t) const { return vcvtq_f32_s32(v); }
};

}  // namespace inlay::simd
