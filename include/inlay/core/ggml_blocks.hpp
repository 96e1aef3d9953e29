// The block formats of GGUF files, byte for byte, and what each byte means.
//
// Every format is the same equation for its groups of elements, which share a scale and, in some, a minimum:
//
//   x = scale(g) * (q - zero) - minimum(g)          or scale(g) * codebook[q], where there is one
//
// d, m and dmin are f16. A block of 32 with codes of 4 bits holds element j in the low nibble of byte j and
// element j + 16 in its high nibble; a fifth bit is bit j of the word h.
//
//   Q8_0    32 elements, 34 bytes   | d | q0 q1 ... q31 |                     x = d * q          q i8
//   Q4_0    32 elements, 18 bytes   | d | 16|0 17|1 ... 31|15 |               x = d * (q - 8)
//   Q4_1    32 elements, 20 bytes   | d | m | 16|0 17|1 ... 31|15 |           x = d * q + m
//   Q5_0    32 elements, 22 bytes   | d | h | 16|0 17|1 ... 31|15 |           x = d * (q - 16)
//   Q5_1    32 elements, 24 bytes   | d | m | h | 16|0 17|1 ... 31|15 |       x = d * q + m
//   IQ4_NL  32 elements, 18 bytes   | d | 16|0 17|1 ... 31|15 |               x = d * iq4_values[q]
//   MXFP4   32 elements, 17 bytes   | e | 16|0 17|1 ... 31|15 |               x = 2^(e-128) * mxfp4_values[q]
//   Q2_K   256 elements, 84 bytes   | 16 scales | 64 codes | d | dmin |       x = (d * s_g) * q - (dmin * m_g)
//   Q3_K   256 elements, 110 bytes  | 32 high | 64 low | 12 bytes | d |       x = (d * (s_g - 32)) * (q - 4)
//   Q4_K   256 elements, 144 bytes  | d | dmin | 12 bytes | 128 codes |       x = (d * s_g) * q - (dmin * m_g)
//   Q5_K   256 elements, 176 bytes  | d | dmin | 12 bytes | 32 high | 128 |   x = (d * s_g) * q - (dmin * m_g)
//   Q6_K   256 elements, 210 bytes  | 128 low | 64 high | 16 scales | d |     x = (d * s_g) * (q - 32)
//   IQ4_XS 256 elements, 136 bytes  | d | 2 bytes | 4 bytes | 128 codes |     x = (d * (s_g - 32)) * iq4_values[q]
//
// Q4_K, Q5_K: eight groups of 32. Bytes 32i .. 32i+31 of the codes hold group 2i in their low nibbles and
// group 2i+1 in their high ones; Q5_K's fifth bit of element l of group g is bit g of high[l]. Six-bit scales s
// and minima m, by group, in 12 bytes:
//
//   byte  0..3    s4[5:4] s0[5:0]  s5 s1  s6 s2  s7 s3      (two high bits of the later group on top)
//   byte  4..7    m4[5:4] m0[5:0]  m5 m1  m6 m2  m7 m3
//   byte  8..11   m4[3:0] s4[3:0]  m5 s5  m6 s6  m7 s7
//
// Q2_K, Q3_K: sixteen groups of 16, in two halves of 128 elements. Byte l of the half's 32 bytes of codes holds two
// bits of element l in bits 1:0, of l + 32 in 3:2, of l + 64 in 5:4, of l + 96 in 7:6. Q3_K's third bit of element
// l + 32 j of half h is bit 4 h + j of high[l]. A byte of Q2_K's scales is m[3:0] s[3:0]. Q3_K's are of six bits:
//
//   byte  0..7    s8[3:0] s0[3:0]  s9 s1 ... s15 s7
//   byte  8..11   s12[5:4] s8[5:4] s4[5:4] s0[5:4]  s13 s9 s5 s1  s14 s10 s6 s2  s15 s11 s7 s3
//
// Q6_K: sixteen groups of 16, in two halves of 128 elements. In each half, for l in 0..31:
//
//   element  l       low[l]    bits 3:0   high[l] bits 1:0
//   element  l + 32  low[l+32] bits 3:0   high[l] bits 3:2
//   element  l + 64  low[l]    bits 7:4   high[l] bits 5:4
//   element  l + 96  low[l+32] bits 7:4   high[l] bits 7:6
//
// IQ4_XS: eight groups of 32, whose codes lie as in a block of 32. Scales of six bits: four low ones in the nibbles of
// the 4 bytes, group 0 in the low nibble of byte 0; two high ones, from the lowest bits on, in the 2 bytes.
#pragma once

#include <bit>
#include <cstdint>

#include <inlay/core/dtype.hpp>
#include <inlay/core/inline.hpp>

namespace inlay::ggml {

// bits: of a code. scale_type: holds every scale and minimum exactly; i8 in units of the block, d and dmin.
template <index Size, index Group, int Bits, int Zero, bool HasMinima, DType ScaleType> struct BlockFormat {
  static constexpr index size = Size, group = Group, groups = Size / Group;
  static constexpr int bits = Bits, zero = Zero;
  static constexpr bool has_minima = HasMinima;
  static constexpr DType scale_type = ScaleType;
};

struct Q8_0 : BlockFormat<32, 32, 8, 0, false, DType::f16> {
  f16 d;
  std::int8_t q[32];
};
struct Q4_0 : BlockFormat<32, 32, 4, 8, false, DType::f16> {
  f16 d;
  std::uint8_t q[16];
};
struct Q4_1 : BlockFormat<32, 32, 4, 0, true, DType::f16> {
  f16 d, m;
  std::uint8_t q[16];
};
struct Q5_0 : BlockFormat<32, 32, 5, 16, false, DType::f16> {
  f16 d;
  std::uint8_t high[4];
  std::uint8_t q[16];
};
struct Q5_1 : BlockFormat<32, 32, 5, 0, true, DType::f16> {
  f16 d, m;
  std::uint8_t high[4];
  std::uint8_t q[16];
};
struct IQ4_NL : BlockFormat<32, 32, 4, 0, false, DType::f16> {
  f16 d;
  std::uint8_t q[16];
};
struct MXFP4 : BlockFormat<32, 32, 4, 0, false, DType::bf16> {
  std::uint8_t e;
  std::uint8_t q[16];
};
struct Q2_K : BlockFormat<256, 16, 2, 0, true, DType::i8> {
  std::uint8_t scales[16];
  std::uint8_t q[64];
  f16 d, dmin;
};
struct Q3_K : BlockFormat<256, 16, 3, 4, false, DType::i8> {
  std::uint8_t high[32];
  std::uint8_t q[64];
  std::uint8_t scales[12];
  f16 d;
};
struct Q4_K : BlockFormat<256, 32, 4, 0, true, DType::i8> {
  f16 d, dmin;
  std::uint8_t scales[12];
  std::uint8_t q[128];
};
struct Q5_K : BlockFormat<256, 32, 5, 0, true, DType::i8> {
  f16 d, dmin;
  std::uint8_t scales[12];
  std::uint8_t high[32];
  std::uint8_t q[128];
};
struct Q6_K : BlockFormat<256, 16, 6, 32, false, DType::i8> {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scales[16];
  f16 d;
};
struct IQ4_XS : BlockFormat<256, 32, 4, 0, false, DType::i8> {
  f16 d;
  std::uint8_t scales_high[2];
  std::uint8_t scales_low[4];
  std::uint8_t q[128];
};
static_assert(sizeof(Q8_0) == 34 && sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22 &&
              sizeof(Q5_1) == 24 && sizeof(IQ4_NL) == 18 && sizeof(MXFP4) == 17 && sizeof(Q2_K) == 84 &&
              sizeof(Q3_K) == 110 && sizeof(Q4_K) == 144 && sizeof(Q5_K) == 176 && sizeof(Q6_K) == 210 &&
              sizeof(IQ4_XS) == 136);

inline namespace INLAY_UNIT_ISA {

inline constexpr std::int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
// Twice those of FP4 (E2M1), so that they are whole.
inline constexpr std::int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// What the codes of a block name; null where they are numbers themselves.
template <class Block> inline constexpr const std::int8_t* codebook = nullptr;
template <> inline constexpr const std::int8_t* codebook<IQ4_NL> = iq4_values;
template <> inline constexpr const std::int8_t* codebook<IQ4_XS> = iq4_values;
template <> inline constexpr const std::int8_t* codebook<MXFP4> = mxfp4_values;

// codes(block, q): of all elements, in their order; they lie in q, or in the block where it has them so.
//
// Low nibbles first, high ones `bytes` further on.
inline void split_nibbles(const std::uint8_t* packed, index bytes, std::int8_t* q) {
  for (index j = 0; j < bytes; ++j) {
    q[j] = static_cast<std::int8_t>(packed[j] & 15);
    q[j + bytes] = static_cast<std::int8_t>(packed[j] >> 4);
  }
}
inline void add_fifth_bits(const std::uint8_t (&high)[4], std::int8_t* q) {
  for (index i = 0; i < 32; ++i) q[i] = static_cast<std::int8_t>(q[i] | (high[i / 8] >> (i % 8) & 1) << 4);
}
// `bytes` times 4 elements: bits 1:0 of all bytes first.
inline void split_pairs_of_bits(const std::uint8_t* packed, index bytes, std::int8_t* q) {
  for (int quarter = 0; quarter < 4; ++quarter)
    for (index l = 0; l < bytes; ++l) q[bytes * quarter + l] = static_cast<std::int8_t>(packed[l] >> (2 * quarter) & 3);
}

inline const std::int8_t* codes(const Q8_0& block, std::int8_t*) { return block.q; }
inline const std::int8_t* codes(const Q4_0& block, std::int8_t* q) {
  split_nibbles(block.q, 16, q);
  return q;
}
inline const std::int8_t* codes(const Q4_1& block, std::int8_t* q) {
  split_nibbles(block.q, 16, q);
  return q;
}
inline const std::int8_t* codes(const Q5_0& block, std::int8_t* q) {
  split_nibbles(block.q, 16, q);
  add_fifth_bits(block.high, q);
  return q;
}
inline const std::int8_t* codes(const Q5_1& block, std::int8_t* q) {
  split_nibbles(block.q, 16, q);
  add_fifth_bits(block.high, q);
  return q;
}
inline const std::int8_t* codes(const IQ4_NL& block, std::int8_t* q) {
  split_nibbles(block.q, 16, q);
  return q;
}
inline const std::int8_t* codes(const MXFP4& block, std::int8_t* q) {
  split_nibbles(block.q, 16, q);
  return q;
}
inline const std::int8_t* codes(const Q2_K& block, std::int8_t* q) {
  for (index half = 0; half < 2; ++half) split_pairs_of_bits(block.q + 32 * half, 32, q + 128 * half);
  return q;
}
inline const std::int8_t* codes(const Q3_K& block, std::int8_t* q) {
  for (index half = 0; half < 2; ++half) split_pairs_of_bits(block.q + 32 * half, 32, q + 128 * half);
  for (int run = 0; run < 8; ++run)
    for (index l = 0; l < 32; ++l)
      q[32 * run + l] = static_cast<std::int8_t>(q[32 * run + l] | (block.high[l] >> run & 1) << 2);
  return q;
}
inline const std::int8_t* codes(const Q4_K& block, std::int8_t* q) {
  for (index pair = 0; pair < 4; ++pair) split_nibbles(block.q + 32 * pair, 32, q + 64 * pair);
  return q;
}
inline const std::int8_t* codes(const Q5_K& block, std::int8_t* q) {
  for (index pair = 0; pair < 4; ++pair) split_nibbles(block.q + 32 * pair, 32, q + 64 * pair);
  for (int group = 0; group < 8; ++group)
    for (index l = 0; l < 32; ++l)
      q[32 * group + l] = static_cast<std::int8_t>(q[32 * group + l] | (block.high[l] >> group & 1) << 4);
  return q;
}
inline const std::int8_t* codes(const Q6_K& block, std::int8_t* q) {
  for (index half = 0; half < 2; ++half) {
    std::int8_t* const to = q + 128 * half;
    split_nibbles(block.low + 64 * half, 64, to);
    for (int quarter = 0; quarter < 4; ++quarter)
      for (index l = 0; l < 32; ++l)
        to[32 * quarter + l] =
            static_cast<std::int8_t>(to[32 * quarter + l] | (block.high[32 * half + l] >> (2 * quarter) & 3) << 4);
  }
  return q;
}
inline const std::int8_t* codes(const IQ4_XS& block, std::int8_t* q) {
  for (index group = 0; group < 8; ++group) split_nibbles(block.q + 16 * group, 16, q + 32 * group);
  return q;
}

// What a scale multiplies, but for the zero: codes, or what they name.
template <class Block> const std::int8_t* numbers(const Block& block, std::int8_t* room) {
  const std::int8_t* const q = codes(block, room);
  if (codebook<Block> == nullptr) return q;
  for (index i = 0; i < Block::size; ++i) room[i] = codebook<Block>[q[i]];
  return room;
}

// The six-bit scale and minimum of a group of Q4_K and Q5_K.
constexpr int six_bit_scale(const std::uint8_t (&s)[12], index group) {
  return group < 4 ? s[group] & 63 : (s[group + 4] & 15) | (s[group - 4] >> 6) << 4;
}
constexpr int six_bit_min(const std::uint8_t (&s)[12], index group) {
  return group < 4 ? s[group + 4] & 63 : s[group + 4] >> 4 | (s[group] >> 6) << 4;
}

// Scales and minima of a super-block are whole numbers of its d and dmin.
inline int scale_in_units(const Q2_K& block, index group) { return block.scales[group] & 15; }
inline int scale_in_units(const Q3_K& block, index group) {
  const int low = block.scales[group % 8] >> (group / 8 * 4) & 15;
  const int high = block.scales[8 + group % 4] >> (group / 4 * 2) & 3;
  return (low | high << 4) - 32;
}
inline int scale_in_units(const Q4_K& block, index group) { return six_bit_scale(block.scales, group); }
inline int scale_in_units(const Q5_K& block, index group) { return six_bit_scale(block.scales, group); }
inline int scale_in_units(const Q6_K& block, index group) { return block.scales[group]; }
inline int scale_in_units(const IQ4_XS& block, index group) {
  const int low = block.scales_low[group / 2] >> (group % 2 * 4) & 15;
  const int high = block.scales_high[group / 4] >> (group % 4 * 2) & 3;
  return (low | high << 4) - 32;
}
inline int minimum_in_units(const Q2_K& block, index group) { return block.scales[group] >> 4; }
inline int minimum_in_units(const Q4_K& block, index group) { return six_bit_min(block.scales, group); }
inline int minimum_in_units(const Q5_K& block, index group) { return six_bit_min(block.scales, group); }

template <class Block> inline constexpr bool has_units = Block::scale_type == DType::i8;

template <class Block> float scale(const Block& block, index group) {
  if constexpr (has_units<Block>)
    return static_cast<float>(block.d) * static_cast<float>(scale_in_units(block, group));
  else
    return static_cast<float>(block.d);
}
// 2^-128 and 2^-127 are subnormal.
template <> inline float scale(const MXFP4& block, index) {
  const std::uint32_t e = block.e;
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}
template <class Block> float minimum(const Block& block, index group) {
  if constexpr (!Block::has_minima)
    return 0;
  else if constexpr (has_units<Block>)
    return static_cast<float>(block.dmin) * static_cast<float>(minimum_in_units(block, group));
  else
    return -static_cast<float>(block.m);
}

// A scale times a code has 24 bits at most, so the product is exact, whatever its order and whether it is fused.
template <class Block> void dequantize_block(const Block& block, float* x) {
  std::int8_t room[Block::size];
  const std::int8_t* const q = numbers(block, room);
  for (index group = 0; group < Block::groups; ++group) {
    const float s = scale(block, group), least = minimum(block, group);
    for (index i = Block::group * group; i < Block::group * (group + 1); ++i)
      x[i] = s * static_cast<float>(q[i] - Block::zero) - least;
  }
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay::ggml
