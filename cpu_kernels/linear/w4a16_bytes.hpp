// Rows of x as the signed bytes of int8_activations. A segment (slots of one group inside one block of 128) has one
// step, max|x| / 127:
//
//   xq[s] = round(x[s] / step)          the sum of xq over the segment goes along
#pragma once

#include "cpu_kernels/linear/row_tiles.hpp"
#include "cpu_kernels/linear/w4a16_weight.hpp"

namespace inlay::cpu {

template <class Level> inline constexpr int w4_int8_rows = w4_int8_tile_rows(simd::Floats<Level>::size);

// Tiles of R rows, each a stream of words of x in the order of CodeInputs, padded with zeros; and what belongs to
// segments in the same way:
//
//   bytes   | word 0: t0 .. t(R-1) | word 1: t0 .. t(R-1) | ..
//   step    | segment 0: t0 .. t(R-1) | segment 1: ..
struct W4Bytes {
  index rows, row_bytes, segments;
  std::int32_t* segment_words = nullptr;
  std::int8_t* bytes = nullptr;
  float* step = nullptr;          // NaN where x is not finite
  float* sum = nullptr;           // of xq; null where the weight is symmetric: there
  std::int32_t* start = nullptr;  // -middle * the sum, where the dot products start

  // The stream of a tile, and of its segments.
  INLAY_INLINE std::int8_t* words(TileOfRows tile) const { return bytes + tile.first * row_bytes; }
  INLAY_INLINE index of_segments(TileOfRows tile) const { return tile.first * segments; }

  // Fills `segment_words`.
  INLAY_INLINE void measure_segments(const W4Weight& w, index per_word) const {
    std::int32_t* to = segment_words;
    for (index begin = 0; begin < w.slots; begin += w4_block)
      for_each_segment(begin, w.block_end(begin), w.group, [&](index s, index stop, index) INLAY_INLINE_LAMBDA {
        *to++ = static_cast<std::int32_t>(groups_of(stop - s, per_word));
      });
  }
};

// A segment's step and the sum of its bytes, which come in order. count: whole registers.
struct W4Rounded {
  float step, sum;
};
template <class Level> INLAY_INLINE W4Rounded w4_round(const float* values, index count, std::int8_t* bytes) {
  using F = simd::Floats<Level>;
  F largest;
  for (index i = 0; i < count; i += F::size) largest = max(largest, abs(F::load(values + i)));
  const float step = reduce_max(largest) / 127;
  const F inverse(step >= 0x1p-126f ? 1 / step : 0);  // 1 / subnormal may be infinite
  F total;
  for (index i = 0; i < count; i += F::size) {
    const F value = round(F::load(values + i) * inverse);
    total = total + value;
    value.store_i8(bytes + i);
  }
  const float sum = reduce_sum(total);
  return sum == sum ? W4Rounded{step, sum} : W4Rounded{sum, 0};  // NaN, or infinity times the reciprocal of its step, 0
}

template <class Level, int Bits, class T>
void w4_quantize_row(const W4Weight& w, const T* x, const W4Bytes& to, index t) {
  using F = simd::Floats<Level>;
  constexpr index per_word = 32 / Bits, whole = F::size > 8 ? F::size : 8;  // words and registers
  constexpr index word_bytes = simd::CodeSums<Level, Bits>::word_bytes;
  const TileOfRows tile = tile_of(w4_int8_rows<Level>, t, to.rows);
  std::int8_t* word = to.words(tile) + (t - tile.first) * word_bytes;
  index at = to.of_segments(tile) + t - tile.first;
  for (index begin = 0; begin < w.slots; begin += w4_block)
    for_each_segment(begin, w.block_end(begin), w.group, [&](index s, index stop, index) INLAY_INLINE_LAMBDA {
      const index count = stop - s, padded = groups_of(count, whole) * whole;
      alignas(64) float values[w4_block];
      alignas(64) std::int8_t bytes[w4_block];
      for (index i = count / whole * whole; i < padded; i += F::size) F().store(values + i);
      if (w.perm)
        for (index i = 0; i < count; ++i) values[i] = w.perm[s + i] < 0 ? 0 : static_cast<float>(x[w.perm[s + i]]);
      else
        for (index i = 0; i < count; i += F::size)
          (count - i < F::size ? F::load(x + s + i, count - i) : F::load(x + s + i)).store(values + i);
      const W4Rounded rounded = w4_round<Level>(values, padded, bytes);
      to.step[at] = rounded.step;
      if (to.sum)
        to.sum[at] = rounded.sum;
      else
        to.start[at] = static_cast<std::int32_t>(-w.middle * rounded.sum);
      at += tile.rows;
      alignas(64) std::int8_t words[w4_block / per_word * word_bytes];
      for (index i = 0; i < count; i += simd::arranged)
        simd::arrange<Level, Bits>(bytes + i, words + i / per_word * word_bytes);
      const index end = groups_of(count, per_word) * word_bytes;
      for (index i = 0; i < end; i += word_bytes, word += tile.rows * word_bytes)
        std::memcpy(word, words + i, word_bytes);
    });
}

}  // namespace inlay::cpu
