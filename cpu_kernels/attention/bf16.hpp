// Products of bf16 (AttentionCompute::bf16_products), where has_dot_bf16<Level>: q, K, V and the weights p are rounded
// to bf16 and lie in scratch as the dot product takes them, two steps of depth in a lane.
//
//   q, p   rows       d0 d1 | d2 d3 | d4 d5 | ..     as they are
//   K      columns    d0 d1 | k0 | k1 | k2 | ..      a square of registers is turned, two dims moving as one lane
//                     d2 d3 | k0 | k1 | k2 | ..
//   V      rows       k0 k1 | d0 | d1 | d2 | ..      two keys side by side
//                     k2 k3 | d0 | d1 | d2 | ..
//
// A pair of keys begins at an even key, counted from the first of the sequence, wherever its tile begins or ends: what
// the tile lacks of it is zero. So the sum is the same chain whatever the chunk (a weight of 0 adds nothing), and few
// rows go this way too.
//
// dim 128, for a row and 64 keys: 512 dot products (Zen 5: 256 cycles), 12 registers of exp, max and sum (73), and a
// 192nd of what packing K and V takes (25).
#pragma once

#include "cpu_kernels/attention/multiply.hpp"
#include "cpu_kernels/attention/output.hpp"
#include "cpu_kernels/attention/row_source.hpp"
#include "cpu_kernels/simd/transpose.hpp"

namespace inlay::cpu {

// Pairs of a row of `dim`, to whole registers.
INLAY_INLINE index padded_pairs(index dim) { return padded((dim + 1) / 2); }
// Scratch of floats, as pairs.
INLAY_INLINE Bf16Pair* pairs_in(float* scratch) { return reinterpret_cast<Bf16Pair*>(scratch); }

template <class Level> INLAY_INLINE void store_pairs(simd::Bf16Pairs<Level> pairs, Bf16Pair* to) {
  pairs.bits().store(reinterpret_cast<float*>(to));
}

// As many of the n elements from x on as fill a register of pairs; zeros behind them.
template <class Level, class T> INLAY_INLINE simd::Bf16Pairs<Level> round_pairs(const T* x, index n) {
  using F = simd::Floats<Level>;
  if constexpr (std::is_same_v<T, bf16>) {
    return n >= 2 * F::size ? simd::Bf16Pairs<Level>::load(x) : simd::Bf16Pairs<Level>::load(x, n);
  } else {
    if (n >= 2 * F::size) return to_bf16(F::load(x), F::load(x + F::size));
    if (n > F::size) return to_bf16(F::load(x), F::load(x + F::size, n - F::size));
    return to_bf16(F::load(x, n), F());
  }
}

// q of a unit, [rows][padded_pairs(dim)]. The scale meets the scores: q of bf16 stays as it is.
template <class Level>
void load_query_pairs(const AttentionCall& p, const HostSequence& sequence, const AttentionUnit& unit,
                      const TileScratch& t) {
  using F = simd::Floats<Level>;
  Bf16Pair* to = pairs_in(t.q);
  with_float(p.q.dtype, [&]<class T>(Type<T>) {
    for (index r = 0; r < unit.all(); ++r, to += padded_pairs(p.k.dim)) {
      const AttentionRow row = unit.row(p, sequence, r);
      const T* const q = p.q.template as<T>() + offset(p.q, sequence.q_outer, sequence.q_row + row.query, row.head, 0);
      for (index d = 0; d < p.k.dim; d += 2 * F::size)
        store_pairs<Level>(round_pairs<Level>(q + d, p.k.dim - d), to + d / 2);
    }
  });
}

// columns[d / 2 * key_tile + j] = dims d and d + 1 of key j
template <class Level, class T>
void pack_column_pairs(const CacheRows<T>& keys, index dim, Bf16Pair* columns, RowPrefetch ahead) {
  using F = simd::Floats<Level>;
  for (index j = 0; j < keys.count; j += F::size) {
    ahead.ask(F::size);
    for (index d = 0; d < dim; d += 2 * F::size) {
      F square[F::size];
      INLAY_UNROLL
      for (int i = 0; i < F::size; ++i)
        square[i] = round_pairs<Level>(keys.cache + keys.row[j + i] + d, dim - d).bits();
      simd::transpose<Level>(square);
      INLAY_UNROLL
      for (int i = 0; i < F::size; ++i) square[i].store(reinterpret_cast<float*>(columns + (d / 2 + i) * key_tile + j));
    }
  }
}

// to[j / 2][padded(dim)] = keys j and j + 1. `odd`: the first key is the second of its pair.
template <class Level, class T>
void pack_value_pairs(const CacheRows<T>& values, bool odd, index dim, Bf16Pair* to, RowPrefetch ahead) {
  using F = simd::Floats<Level>;
  for (index j = odd ? -1 : 0; j < values.count; j += 2, to += padded(dim)) {
    ahead.ask(j < 0 ? 1 : 2);
    const auto part = [&](index key, index d) INLAY_INLINE_LAMBDA {
      if (key < 0 || key >= values.count) return F();
      const T* const x = values.cache + values.row[key] + d;
      return dim - d >= F::size ? F::load(x) : F::load(x, dim - d);
    };
    for (index d = 0; d < dim; d += F::size) store_pairs<Level>(to_bf16_pairs(part(j, d), part(j + 1, d)), to + d);
  }
}

// The probabilities of a row, in place.
template <class Level> INLAY_INLINE void round_weights(float* s) {
  using F = simd::Floats<Level>;
  for (index j = 0; j < key_tile; j += 2 * F::size)
    store_pairs<Level>(to_bf16(F::load(s + j), F::load(s + j + F::size)), pairs_in(s) + j / 2);
}

template <class Level> bool all_finite(const Bf16Pair* x, index count) {
  using F = simd::Floats<Level>;
  F sum;
  for (index i = 0; i < count; i += F::size) {
    const auto pairs = simd::Bf16Pairs<Level>::load(reinterpret_cast<const bf16*>(x + i));
    sum = fma(pairs.odd(), F(0.0f), fma(pairs.even(), F(0.0f), sum));
  }
  return reduce_sum(sum) == 0;
}

// visible_values (attention/multiply.hpp) over pairs of keys: sees(row, key), counted from the first pair's.
template <class Level, class Sees>
void visible_value_pairs(Strided<const Bf16Pair> p, index rows, const Bf16Pair* v, index pairs, Strided<float> o,
                         const float* factor, Sees&& sees) {
  using F = simd::Floats<Level>;
  using Pairs = simd::Bf16Pairs<Level>;
  const index pad = o.stride;
  for (index r = 0; r < rows; ++r) {
    float* const y = o.at + r * pad;
    for (index d = 0; d < pad; d += F::size) (F::load(y + d) * F(factor[r])).store(y + d);
    for (index j = 0; j < pairs; ++j) {
      const Bf16Pair weights = p.at[r * p.stride + j];
      const bool hides_even = (weights & 0xffff) == 0 && !sees(r, 2 * j);
      const bool hides_odd = weights >> 16 == 0 && !sees(r, 2 * j + 1);
      for (index d = 0; d < pad; d += F::size) {
        const Pairs both = Pairs::load(reinterpret_cast<const bf16*>(v + j * pad + d));
        const Pairs seen = to_bf16_pairs(hides_even ? F() : both.even(), hides_odd ? F() : both.odd());
        dot(F::load(y + d), Pairs::broadcast(weights), seen).store(y + d);
      }
    }
  }
}

}  // namespace inlay::cpu
