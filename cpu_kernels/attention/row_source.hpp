// K and V as rows: a token's dims lie side by side, tokens wherever a stride, a list or a block table says.
//
// What attention/split.hpp asks of a source: lay() finds a tile of keys, ahead() names what to ask memory for,
// dot() and weigh() multiply a stretch of it, and stretches_values() says whether weigh() takes stretches at all.
#pragma once

#include "cpu_kernels/attention/four_rows.hpp"
#include "cpu_kernels/attention/rows.hpp"

namespace inlay::cpu {

// A tile of keys of one sequence: keys first .. first + count, and where each lies in its kv head.
struct RowTile {
  index first = 0, count = 0;
  index k[key_tile], v[key_tile];

  INLAY_INLINE const index* rows(Which which) const { return which == Which::keys ? k : v; }
};

// `count` keys of a tile from its key `at` on.
template <class Tile> struct Stretch {
  const Tile& tile;
  index at, count;
};

class RowSource {
 public:
  using Tile = RowTile;

  INLAY_INLINE RowSource(const AttentionCall& p, const HostSequence& sequence) : p_(p), sequence_(sequence) {}

  // Entries of k up to a multiple of lane_pad repeat the last one: products take whole tiles of rows.
  INLAY_INLINE void lay(RowTile& tile, index begin, index end) const {
    tile.first = begin;
    tile.count = end > begin ? end - begin : 0;
    each_run(p_, sequence_, begin, end, [&](const KeyRun& run) INLAY_INLINE_LAMBDA {
      const index k = run.outer * p_.k.cache.strides[0] + run.row * sequence_.k.row_stride;
      const index v = run.outer * p_.v.cache.strides[0] + run.row * sequence_.v.row_stride;
      for (index i = 0; i < run.count; ++i) {
        tile.k[run.at + i] = k + i * sequence_.k.row_stride;
        tile.v[run.at + i] = v + i * sequence_.v.row_stride;
      }
    });
    for (index i = tile.count; i % lane_pad != 0; ++i) tile.k[i] = tile.k[tile.count - 1];
  }

  static constexpr bool in_order = false, bf16_products = false;
  static constexpr bool stretches_values() { return true; }

  INLAY_INLINE RowsAhead ahead(Which which, const Stretch<RowTile>& next, UnitHeads heads) const {
    return ahead(which, next.tile.rows(which) + next.at, next.count, heads);
  }

  // s = q K^T
  template <class Level, class T>
  void dot(Strided<const float> q, const float* fours, index rows, const Stretch<RowTile>& of, index kv_head,
           Strided<float> s, const RowsAhead& next) const {
    dot_whole<Level>(q, fours, rows, cached<T>(Which::keys, of, kv_head), p_.k.dim, s, next);
  }
  // .. where a key's dims lie side by side.
  template <class Level, class T>
  INLAY_INLINE void dot_whole(Strided<const float> q, const float* fours, index rows, const CacheRows<T>& keys,
                              index dim, Strided<float> s, const RowsAhead& next) const {
    if constexpr (simd::has_four_rows<Level>)
      if (p_.fours) return dot_fours<Level>(fours, rows, keys, EvenChunks{dim / chunk_of<T>, chunk_of<T>}, s, next);
    const index first = 0;
    dot_rows<Level, T>(q, rows, keys, {&first, &dim, 1}, s, next);
  }

  // o = o * factor + p V
  template <class Level, class T>
  void weigh(Strided<const float> p, index rows, const Stretch<RowTile>& of, index kv_head, Strided<float> o,
             const float* factor, const RowsAhead& next) const {
    weigh_rows<Level, T>(p, rows, cached<T>(Which::values, of, kv_head), p_.v.dim, o, factor, next);
  }

  template <class T> INLAY_INLINE CacheRows<T> cached(Which which, const Stretch<RowTile>& of, index kv_head) const {
    return {reinterpret_cast<const T*>(head(which, kv_head)), of.tile.rows(which) + of.at, of.count};
  }

 protected:
  INLAY_INLINE RowsAhead ahead(Which which, const index* row, index count, UnitHeads heads) const {
    const AttentionKv<Host>& tensor = p_.cached(which);
    return {.cache = head(which, heads.first),
            .row = row,
            .element = byte_size(tensor.dtype(), 1),
            .count = count,
            .bytes = byte_size(tensor.dtype(), tensor.dim),
            .heads = heads.count,
            .head_stride = byte_size(tensor.dtype(), sequence_.rows(which).head_stride),
            .first = heads.at * count};
  }
  INLAY_INLINE const std::byte* head(Which which, index kv_head) const {
    return head_of(p_, sequence_, which, kv_head);
  }

  const AttentionCall& p_;
  const HostSequence& sequence_;
};

// Rows whose scores are summed dim after dim.
struct OrderedRowSource : RowSource {
  static constexpr bool in_order = true;
  using RowSource::RowSource;
};

// .. of products of bf16 (attention/bf16.hpp).
struct Bf16RowSource : OrderedRowSource {
  static constexpr bool bf16_products = true;
  using OrderedRowSource::OrderedRowSource;
};

}  // namespace inlay::cpu
