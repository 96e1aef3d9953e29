// From dot products to probabilities, one row of one tile: bias and softcap, masks, the online softmax.
#pragma once

#include <limits>

#include <inlay/core/online_softmax.hpp>

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/tanh.hpp"
#include "cpu_kernels/support/dtypes.hpp"

namespace inlay::cpu {

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// What one row of a tile sees: the row is query row / group, head kv_head * group + row % group.
struct AttentionRow {
  KeyRange keys;
  index position, head, query;
};

INLAY_INLINE AttentionRow attention_row(const AttentionCall& p, const HostSequence& sequence, index kv_head,
                                        index row) {
  const index query = row / p.group(), position = sequence.position + query;
  return {visible_keys(position, sequence.keys, p.window_left, p.window_right), position,
          kv_head * p.group() + row % p.group(), query};
}

// bias[0..64) = bias + slope * (j - position) of the keys tile .. min(tile + 64, end).
template <class Level>
void tile_bias(const AttentionCall& p, const HostSequence& sequence, const AttentionRow& row, index b, index tile,
               index end, float* bias) {
  using F = simd::Floats<Level>;
  for (index x = 0; x < key_tile; x += F::size) F().store(bias + x);
  if (p.bias.present()) {
    const BroadcastRow from = broadcast_row(p.bias, b, row.head, row.query);
    with_float(p.bias.dtype, [&]<class T>(Type<T>) {
      const T* values = p.bias.template as<T>() + from.first;
      for (index x = 0; tile + x < end; x += F::size) {
        const index n = min(end - tile - x, F::size);
        const F value =
            from.step == 0 ? F(static_cast<float>(*values)) : F::load(values + sequence.column + tile + x, n);
        value.store(bias + x);
      }
    });
  }
  if (p.alibi_slopes.present()) {
    const float slope = p.alibi_slopes.template as<float>()[row.head];
    for (index x = 0; x < key_tile; ++x) bias[x] += slope * static_cast<float>(tile + x - row.position);
  }
}

// s -> score before the mask. The scale is in q already.
template <class Level> void bias_and_softcap(const AttentionCall& p, const float* bias, float* s) {
  using F = simd::Floats<Level>;
  constexpr float largest = std::numeric_limits<float>::max();
  // Below 2^-128 a softcap has no reciprocal, and a score of 0 no product with one; any large factor gives +-softcap.
  const F cap(p.softcap), inverse_cap(1 / p.softcap < largest ? 1 / p.softcap : largest), lowest(-largest);
  const auto softcap = [&](F x) { return p.softcap > 0 ? cap * tanh(x * inverse_cap) : x; };
  for (index x = 0; x < key_tile; x += F::size) {
    F v = F::load(s + x);
    if (bias != nullptr) {
      const F extra = F::load(bias + x);
      if (p.bias_order == BiasOrder::scale_softcap_bias)
        v = softcap(v) + extra;
      else if (p.bias_order == BiasOrder::bias_scale_softcap)
        v = softcap(fma(extra, F(p.scale), v));
      else
        v = softcap(v + extra);
      v = select(extra < lowest, F(minus_infinity), v);  // a mask, whatever the softcap made of it
    } else {
      v = softcap(v);
    }
    v.store(s + x);
  }
}

template <class Level>
void mask_row(const AttentionCall& p, const HostSequence& sequence, const AttentionRow& row, index b, index tile,
              index end, float* s) {
  using F = simd::Floats<Level>;
  const F masked(minus_infinity);
  const auto lanes = [](index n) { return n < 0 ? index{0} : min(n, F::size); };
  for (index x = 0; x < key_tile; x += F::size) {
    F v = select(F::first(lanes(row.keys.end - tile - x)), F::load(s + x), masked);
    v = select(F::first(lanes(row.keys.begin - tile - x)), masked, v);
    v.store(s + x);
  }
  if (p.mask.present()) {
    const BroadcastRow from = broadcast_row(p.mask, b, row.head, row.query);
    const std::uint8_t* bytes = static_cast<const std::uint8_t*>(p.mask.data) + from.first;
    for (index x = 0; tile + x < end; x += F::size) {
      const F byte = from.step == 0 ? F(static_cast<float>(*bytes))
                                    : F::load(bytes + sequence.column + tile + x, lanes(end - tile - x));
      select(F() < byte, masked, F::load(s + x)).store(s + x);
    }
  }
  if (sequence.packed_mask != nullptr)
    for (index j = tile; j < end; ++j)
      if (!packed_bit(sequence.packed_mask, row.query * sequence.keys + j)) s[j - tile] = minus_infinity;
}

// Do the windows, the masks and a bias of -inf let a row see a key? Asked one by one only where a V that is not finite
// makes 0 * V a NaN: a weight of 0 alone does not tell what is hidden from what is far behind the largest score.
INLAY_INLINE bool sees(const AttentionCall& p, const HostSequence& sequence, const AttentionRow& row, index b,
                       index key) {
  if (key < row.keys.begin || key >= row.keys.end) return false;
  if (p.mask.present()) {
    const BroadcastRow from = broadcast_row(p.mask, b, row.head, row.query);
    if (static_cast<const std::uint8_t*>(p.mask.data)[from.first + from.step * (sequence.column + key)] != 0)
      return false;
  }
  if (p.bias.present()) {
    const BroadcastRow from = broadcast_row(p.bias, b, row.head, row.query);
    const index at = from.first + from.step * (sequence.column + key);
    const float bias =
        with_float(p.bias.dtype, [&]<class T>(Type<T>) { return static_cast<float>(p.bias.template as<T>()[at]); });
    if (bias == minus_infinity) return false;
  }
  return sequence.packed_mask == nullptr || packed_bit(sequence.packed_mask, row.query * sequence.keys + key);
}

// s -> exp(s - m); returns the factor by which everything gathered before must shrink. The tile stays in registers in
// between. m seldom grows after the first tiles: asking first whether it does saves the reduction. Sums stay apart, a
// register of them, until all tiles are through. (Zen 4, cycles a row: 105 with both reductions, 72 without that of m,
// 58 with weight_exp, 49 without that of sums.) A NaN leaves m as it is and makes the sum NaN; so does an infinite
// score, as exp(inf - inf) does in the textbook.
template <class Level> float softmax_tile(float* s, float& m, float* sums) {
  using F = simd::Floats<Level>;
  constexpr int vectors = key_tile / F::size, chains = min(vectors, 4);
  simd::Register<Level> x[vectors], largest[chains], sum[chains];
  INLAY_UNROLL
  for (int i = 0; i < vectors; ++i) {
    x[i] = F::load(s + i * F::size).v;
    largest[i % chains] = (i < chains ? F(x[i]) : max(F(x[i]), F(largest[i % chains]))).v;
  }
  INLAY_UNROLL
  for (int c = 1; c < chains; ++c) largest[0] = max(F(largest[c]), F(largest[0])).v;
  float factor = 1;
  if (F::any(F(m) < F(largest[0]))) {
    const float max = reduce_max(F(largest[0]));
    simd::weight_exp(F(m - max)).store(&factor, 1);
    m = max;
  }
  const F origin = max(F(-std::numeric_limits<float>::max()), F(m));  // of -inf: nothing minus this is nothing
  INLAY_UNROLL
  for (int i = 0; i < vectors; ++i) {
    const F p = simd::weight_exp(F(x[i]) - origin);
    p.store(s + i * F::size);
    sum[i % chains] = (i < chains ? p : F(sum[i % chains]) + p).v;
  }
  INLAY_UNROLL
  for (int c = 1; c < chains; ++c) sum[0] = (F(sum[0]) + F(sum[c])).v;
  fma(F::load(sums), F(factor), F(sum[0])).store(sums);
  return factor;
}

}  // namespace inlay::cpu
