// Four words.
#pragma once

#include "cpu_kernels/simd/int4.hpp"
#include "cpu_kernels/simd/intrinsics.hpp"
#include "cpu_kernels/simd/unroll.hpp"

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
  template <CodeForm Form, Codes Kind, int J> INLAY_INLINE Floats<Level> code() const {
    constexpr int shift = code_shift<Form, Kind>(J);
    uint32x4_t bits = vreinterpretq_u32_u8(v);
    if constexpr (shift > 0) bits = vshrq_n_u32(bits, shift);
    bits = vandq_u32(bits, vdupq_n_u32(code_mask<Form, Kind, J>));
    return Form == CodeForm::subnormal ? vreinterpretq_f32_u32(bits) : vcvtq_f32_u32(bits);
  }
  template <Codes Kind, int H> INLAY_INLINE CodePart<Level> part() const {
    if constexpr (Kind == Codes::eight && has_mixed_dot<Level>)
      return {v};
    else
      return {H ? vshrq_n_u8(v, 4) : vandq_u8(v, vdupq_n_u8(15))};
  }
};

template <class Level, Codes Kind>
requires std::is_base_of_v<isa::neon, Level>
struct UpperBits<Level, Kind> {
  uint32x4_t v;
  static INLAY_INLINE UpperBits load(const std::uint8_t* p) {
    if constexpr (Kind == Codes::six) return {vmovl_u16(vreinterpret_u16_u8(vld1_u8(p)))};
    const uint8x8_t four = vreinterpret_u8_s32(vdup_n_s32(four_bytes(reinterpret_cast<const std::int8_t*>(p))));
    return {vmovl_u16(vget_low_u16(vmovl_u8(four)))};
  }
  template <int H> INLAY_INLINE CodePart<Level> over(CodeWords<Level> words) const {
    return {vorrq_u8(words.template part<Codes::four, H>().v, vreinterpretq_u8_u32(upper_of_bytes<Kind, H>(v)))};
  }
};

template <class Level>
requires std::is_base_of_v<isa::neon, Level>
struct CodeTable<Level, Codes::named> {
  uint8x16_t above_least, factors;  // factors: as the products take them
  INLAY_INLINE explicit CodeTable(const NamedBytes& named)
      : above_least(vld1q_u8(named.above_least)),
        factors(has_mixed_dot<Level> ? above_least : vreinterpretq_u8_s8(vld1q_s8(named.value))) {}
  template <int H> INLAY_INLINE CodeWords<Level> bytes(CodeWords<Level> words) const {
    return {vqtbl1q_u8(above_least, words.template part<Codes::four, H>().v)};
  }
  template <int H> INLAY_INLINE CodePart<Level> part(CodeWords<Level> words) const {
    return {vqtbl1q_u8(factors, words.template part<Codes::four, H>().v)};
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

// The activations of one row are lane I of a register, which dot products take as they take a whole one: what rows
// need is loaded once, 8 or 16 bytes at a time, and nothing is broadcast.
template <class Bytes, int I> struct LaneInputs { Bytes v; };
INLAY_INLINE void load_lanes(const std::int8_t* x, int8x8_t& to) { to = vld1_s8(x); }
INLAY_INLINE void load_lanes(const std::int8_t* x, int8x16_t& to) { to = vld1q_s8(x); }
template <class Level, Codes Kind, int R>
requires(std::is_base_of_v<isa::neon_dotprod, Level>&& R* CodeSums<Level, Kind>::word_bytes % 8 ==
         0) struct RowInputs<Level, Kind, R> {
  static constexpr int row_words = CodeSums<Level, Kind>::word_bytes / 4;
  static constexpr int lanes = R * row_words % 4 == 0 ? 4 : 2, count = R * row_words / lanes;
  using Bytes = std::conditional_t<lanes == 4, int8x16_t, int8x8_t>;
  Bytes v[count];
  static INLAY_INLINE RowInputs load(const std::int8_t* x) {
    RowInputs inputs;
    unroll<count>([&](auto i) INLAY_INLINE_LAMBDA { load_lanes(x + 4 * lanes * i, inputs.v[i]); });
    return inputs;
  }
  template <int Row, int H> INLAY_INLINE auto row() const {
    constexpr int word = Row * row_words + static_cast<int>(CodeSums<Level, Kind>::place(H)) / 4;
    return LaneInputs<Bytes, word % lanes>{v[word / lanes]};
  }
};

// sums + the four products of each word; where the dot product is not mixed, codes are signed bytes.
template <class Level> INLAY_INLINE int32x4_t add_products(int32x4_t sums, uint8x16_t codes, int8x16_t x) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  if constexpr (has_mixed_dot<Level>) return vusdotq_s32(sums, codes, x);
#endif
  const int8x16_t bytes = vreinterpretq_s8_u8(codes);
#if defined(__ARM_FEATURE_DOTPROD)
  if constexpr (std::is_base_of_v<isa::neon_dotprod, Level>) return vdotq_s32(sums, bytes, x);
#endif
  // Two products are 2 * 128 * 127 at most: they fit 16 bits.
  const int16x8_t low = vmull_s8(vget_low_s8(bytes), vget_low_s8(x)), high = vmull_high_s8(bytes, x);
  return vpadalq_s16(sums, vpaddq_s16(low, high));
}

#if defined(__ARM_FEATURE_DOTPROD)
template <class Level, int I>
INLAY_INLINE int32x4_t add_products(int32x4_t sums, uint8x16_t codes, LaneInputs<int8x16_t, I> x) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  if constexpr (has_mixed_dot<Level>) return vusdotq_laneq_s32(sums, codes, x.v, I);
#endif
  return vdotq_laneq_s32(sums, vreinterpretq_s8_u8(codes), x.v, I);
}
template <class Level, int I>
INLAY_INLINE int32x4_t add_products(int32x4_t sums, uint8x16_t codes, LaneInputs<int8x8_t, I> x) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  if constexpr (has_mixed_dot<Level>) return vusdotq_lane_s32(sums, codes, x.v, I);
#endif
  return vdotq_lane_s32(sums, vreinterpretq_s8_u8(codes), x.v, I);
}
#endif

template <class Level, Codes Kind>
requires std::is_base_of_v<isa::neon, Level>
struct CodeSums<Level, Kind> : std::conditional_t<Kind == Codes::eight, OnePart, TwoParts> {
  static constexpr bool nibbles = Kind == Codes::eight && !has_mixed_dot<Level>;
  static constexpr bool from_least = Kind != Codes::named || has_mixed_dot<Level>;  // else values: nothing to take off
  static constexpr index most = 128;
  static constexpr int parts = Kind != Codes::eight || nibbles ? 2 : 1;
  static constexpr int columns(int rows) { return rows > 4 ? 2 : 4; }
  int32x4_t v, high;  // high: of the upper nibbles of codes
  CodeSums() = default;
  INLAY_INLINE explicit CodeSums(std::int32_t start) : v(vdupq_n_s32(from_least ? start : 0)) {}
  INLAY_INLINE void open() { high = vdupq_n_s32(0); }
  template <int H> INLAY_INLINE void add(CodePart<Level> codes, CodeInputs<Level> inputs) {
    int32x4_t& sums = H && nibbles ? high : v;
    sums = add_products<Level>(sums, codes.v, inputs.v);
  }
  template <int H, class Bytes, int I> INLAY_INLINE void add(CodePart<Level> codes, LaneInputs<Bytes, I> inputs) {
    int32x4_t& sums = H && nibbles ? high : v;
    sums = add_products<Level>(sums, codes.v, inputs);
  }
  INLAY_INLINE void close() {
    if (nibbles) v = vaddq_s32(v, vshlq_n_s32(high, 4));
  }
  INLAY_INLINE Floats<Level> to_floats(std::int32_t) const { return vcvtq_f32_s32(v); }
};

}  // namespace inlay::simd
