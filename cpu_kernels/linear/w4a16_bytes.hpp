// Rows of x as the signed bytes of int8_activations. A segment (slots of one group inside one block of 128) has one
// step, max|x| / 127:
//
//   xq[s] = round(x[s] / step)          the sum of xq over the segment goes along
#pragma once

#include "cpu_kernels/linear/row_tiles.hpp"
#include "cpu_kernels/linear/w4a16_weight.hpp"
#include "cpu_kernels/simd/int4_pairs.hpp"
#include "cpu_kernels/simd/transpose.hpp"

namespace inlay::cpu {

// Three rows by one tile take 0.79 of the time of two and one (AVX2, 4 bits, Zen 3). Where one instruction multiplies
// two rows, halves keep them in pairs.
template <class Level, simd::Codes Kind>
inline constexpr RowTiles w4_int8_tiles =
    simd::has_pair_products<Level> ? RowTiles{.most = w4_int8_pair_rows, .halves = true}
                                   : RowTiles{w4_int8_tile_rows(simd::Floats<Level>::size, simd::bits_of<Kind>),
                                              w4_int8_alone_rows(simd::Floats<Level>::size, simd::bits_of<Kind>)};

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

// A segment's step and the sum of its bytes.
struct W4Rounded {
  float step, sum;
};
// N segments of `count` slots each, one behind the other, and their bytes in order; zeros behind them fill the last
// register. Each is a chain of two reductions and two divisions, hence several side by side.
template <class Level, int N, class T>
INLAY_INLINE void w4_round(const T* x, index count, std::int8_t* bytes, W4Rounded (&rounded)[N]) {
  using F = simd::Floats<Level>;
  const auto load = [&](int n, index i) INLAY_INLINE_LAMBDA {
    const T* const from = x + n * count + i;
    return count - i < F::size ? F::load(from, count - i) : F::load(from);
  };
  F largest[N], inverse[N], total[N];
  float step[N], sums[N];
  for (index i = 0; i < count; i += F::size)
    simd::unroll<N>([&](auto n) INLAY_INLINE_LAMBDA { largest[n] = max(largest[n], abs(load(n, i))); });
  simd::unroll<N>([&](auto n) INLAY_INLINE_LAMBDA {
    step[n] = reduce_max(largest[n]) / 127;
    inverse[n] = F(step[n] >= 0x1p-126f ? 1 / step[n] : 0);  // 1 / subnormal may be infinite
  });
  for (index i = 0; i < count; i += F::size)
    simd::unroll<N>([&](auto n) INLAY_INLINE_LAMBDA {
      const F value = round(load(n, i) * inverse[n]);
      total[n] = total[n] + value;
      value.store_i8(bytes + n * count + i);
    });
  if constexpr (N == 4)
    simd::store_sums<Level>(total[0], total[1], total[2], total[3], sums);
  else
    sums[0] = reduce_sum(total[0]);
  for (int n = 0; n < N; ++n) {  // NaN, or infinity times the reciprocal of its step, 0
    const bool number = sums[n] == sums[n];
    rounded[n] = {number ? step[n] : sums[n], number ? sums[n] : 0};
  }
}

// The segments of a block, s .. end, rounded: their bytes in order, and what belongs to them into place `at` and every
// row of the tile further on. `x`: of slot s.
template <class Level, class T>
index w4_round_block(const W4Weight& w, const T* x, index s, index end, std::int8_t* bytes, const W4Bytes& to, index at,
                     index rows) {
  constexpr int beside = 4;
  constexpr index lanes = simd::Floats<Level>::size;
  const auto round_some = [&]<int N>(std::integral_constant<int, N>, index of_each) {
    W4Rounded rounded[N];
    w4_round<Level>(x, of_each, bytes, rounded);
    for (const W4Rounded& segment : rounded) {
      to.step[at] = segment.step;
      if (to.sum)
        to.sum[at] = segment.sum;
      else
        to.start[at] = static_cast<std::int32_t>(-w.middle * segment.sum);
      at += rows;
    }
    s += N * of_each, x += N * of_each, bytes += N * of_each;
  };
  while (s < end) {
    const index group_end = (s / w.group + 1) * w.group, of_each = min(group_end, end) - s;
    if (of_each == w.group && of_each % lanes == 0 && end - s >= beside * of_each)
      round_some(std::integral_constant<int, beside>{}, of_each);
    else
      round_some(std::integral_constant<int, 1>{}, of_each);
  }
  return at;
}

// The same of slots that are inputs in another order.
template <class Level, class T>
index w4_round_gathered(const W4Weight& w, const T* x, index begin, index end, std::int8_t* bytes, const W4Bytes& to,
                        index at, index rows) {
  float values[w4_block];
  const std::int32_t* const perm = w.perm + begin;
  for (index i = 0; i < end - begin; ++i) values[i] = perm[i] < 0 ? 0 : static_cast<float>(x[perm[i]]);
  return w4_round_block<Level>(w, values, begin, end, bytes, to, at, rows);
}

// A block at a time: its segments are rounded, then its bytes become words. A segment's words made right behind its
// rounding waited for bytes that were still on their way to memory, in smaller stores than they are read. With that,
// and segments side by side, a slot takes 1.25 cycles where it took 1.92 (Zen 4, 896 slots in L1, groups of 32), and
// prefill of qwen2.5-0.5b in Q4_0 1.05 times as many tokens a second, medians of five by turns.
template <class Level, simd::Codes Kind, class T>
void w4_quantize_row(const W4Weight& w, const T* x, const W4Bytes& to, index t) {
  constexpr index per_word = simd::codes_of_word<Kind>, word_bytes = simd::CodeSums<Level, Kind>::word_bytes;
  const TileOfRows tile = w4_int8_tiles<Level, Kind>.holding(t, to.rows);
  std::int8_t* const stream = to.words(tile);  // null where there are no slots
  index from = (t - tile.first) * word_bytes, at = to.of_segments(tile) + t - tile.first;
  for (index begin = 0; begin < w.slots; begin += w4_block) {
    const index end = w.block_end(begin), count = end - begin;
    alignas(64) std::int8_t bytes[w4_block + simd::arranged];
    at = w.perm ? w4_round_gathered<Level>(w, x, begin, end, bytes, to, at, tile.rows)
                : w4_round_block<Level>(w, x + begin, begin, end, bytes, to, at, tile.rows);
    for (index i = count; i % per_word != 0; ++i) bytes[i] = 0;
    alignas(64) std::int8_t words[w4_block / per_word * word_bytes];
    for (index i = 0; i < count; i += simd::arranged)
      simd::arrange<Level, Kind>(bytes + i, words + i / per_word * word_bytes);
    const index filled = groups_of(count, per_word) * word_bytes;
    for (index i = 0; i < filled; i += word_bytes, from += tile.rows * word_bytes)
      std::memcpy(stream + from, words + i, word_bytes);
  }
}

}  // namespace inlay::cpu
