// Products of 4-bit codes by pairs: two channels by two rows of eight slots in one instruction, USMMLA. A level that
// has it says so by has_pair_products; the order of codes and activations is that of int4.hpp, whose words are eight
// slots of a row or of a channel.
//
//   PairCodes<Level, Kind>   (words, table): four words as two pairs of channels
//   PairInputs<Level>        load(x): the activations of a word of two rows, side by side
//   PairSums<Level>          (start): int32 of four channels by two rows, from start[0] and start[1];
//                            add(codes, inputs)
//   PairFloats<Level>        two registers in the same order: of_sums, of_channels, of_rows, load, store
//   to_rows(pairs)           its registers as four channels of either row
//
//   low    c0 r0 | c0 r1 | c1 r0 | c1 r1          high    c2 r0 | c2 r1 | c3 r0 | c3 r1
#pragma once

#include "cpu_kernels/simd/int4.hpp"

namespace inlay::simd {

template <class Level> inline constexpr bool has_pair_products = std::is_base_of_v<isa::neon_i8mm, Level>;

#if defined(__ARM_FEATURE_MATMUL_INT8)
template <class Level, Codes Kind> struct PairCodes {
  uint8x16_t low, high;
  PairCodes() = default;
  INLAY_INLINE PairCodes(StepWords<Level, Kind> words, const CodeTable<Level, Kind>& table) {
    const uint32x4_t even = vreinterpretq_u32_u8(code_part<Kind, 0>(words, table).v);
    const uint32x4_t odd = vreinterpretq_u32_u8(code_part<Kind, 1>(words, table).v);
    low = vreinterpretq_u8_u32(vzip1q_u32(even, odd));
    high = vreinterpretq_u8_u32(vzip2q_u32(even, odd));
  }
};

template <class Level> struct PairInputs {
  static constexpr index bytes = 16;
  int8x16_t v;
  static INLAY_INLINE PairInputs load(const std::int8_t* x) { return {vld1q_s8(x)}; }
};

template <class Level> struct PairSums {
  int32x4_t low, high;
  PairSums() = default;
  INLAY_INLINE explicit PairSums(const std::int32_t* start) {
    const int32x2_t both = vld1_s32(start);
    low = high = vcombine_s32(both, both);
  }
  template <Codes Kind> INLAY_INLINE void add(const PairCodes<Level, Kind>& codes, PairInputs<Level> inputs) {
    low = vusmmlaq_s32(low, codes.low, inputs.v);
    high = vusmmlaq_s32(high, codes.high, inputs.v);
  }
};

template <class Level> struct PairFloats {
  using F = Floats<Level>;
  F low, high;
  static INLAY_INLINE PairFloats of_sums(const PairSums<Level>& sums) {
    return {vcvtq_f32_s32(sums.low), vcvtq_f32_s32(sums.high)};
  }
  static INLAY_INLINE PairFloats of_channels(F four) {
    return {vzip1q_f32(four.v, four.v), vzip2q_f32(four.v, four.v)};
  }
  static INLAY_INLINE PairFloats of_rows(const float* two) {
    const float32x2_t both = vld1_f32(two);
    return {vcombine_f32(both, both), vcombine_f32(both, both)};
  }
  static INLAY_INLINE PairFloats load(const float* p) { return {F::load(p), F::load(p + F::size)}; }
  INLAY_INLINE void store(float* p) const {
    low.store(p);
    high.store(p + F::size);
  }
  friend INLAY_INLINE PairFloats operator*(PairFloats a, PairFloats b) { return {a.low * b.low, a.high * b.high}; }
  friend INLAY_INLINE PairFloats fma(PairFloats a, PairFloats b, PairFloats c) {
    return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
  }
};
template <class Level> INLAY_INLINE FloatPair<Floats<Level>> to_rows(PairFloats<Level> pairs) {
  return deinterleave(pairs.low, pairs.high);
}
#endif

}  // namespace inlay::simd
