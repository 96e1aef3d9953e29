// K and V as rows: a token's dims lie side by side, tokens wherever a stride, a list or a block table says.
//
// What attention/split.hpp asks of a source: locate() finds a tile of keys, ahead() names what to ask memory for,
// qk() and pv() multiply a chunk of it, and chunks_values() says whether pv() takes chunks at all.
#pragma once

#include "cpu_kernels/attention/dot_x4.hpp"
#include "cpu_kernels/attention/qk_route.hpp"
#include "cpu_kernels/attention/rows.hpp"

namespace inlay::cpu {

// A tile of keys of one sequence: keys first .. first + count, and where each lies in its kv head. V has a place behind
// them for the one that pv_rows looks ahead to.
struct RowTile {
  index first = 0, count = 0;
  index k[key_tile], v[key_tile + 1];

  INLAY_INLINE const index* rows(Which which) const { return which == Which::keys ? k : v; }
};

// `count` keys of a tile from its key `at` on.
template <class Tile> struct KvChunk {
  const Tile& tile;
  index at, count;
};

class RowSource {
 public:
  using Tile = RowTile;

  INLAY_INLINE RowSource(const AttentionCall& p, const HostSequence& sequence) : p_(p), sequence_(sequence) {}

  // Entries of k up to a multiple of lane_pad repeat the last one: products take whole tiles of rows.
  INLAY_INLINE void locate(RowTile& tile, index begin, index end) const {
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
    tile.v[tile.count] = 0;
  }

  static constexpr QkSums sums = QkSums::over_lanes;
  static constexpr bool chunks_values() { return true; }

  INLAY_INLINE RowPrefetch ahead(Which which, const KvChunk<RowTile>& next, UnitHeads heads) const {
    return ahead(which, next.tile.rows(which) + next.at, next.count, heads);
  }

  // s = q K^T, summed over lanes. x4: q interleaved, where the route is that; else null.
  template <class Level, class T>
  void qk(Strided<const float> q, const float* x4, index rows, const KvChunk<RowTile>& of, index kv_head,
          Strided<float> s, RowPrefetch next) const {
    qk_whole<Level>(q, x4, rows, cached<T>(Which::keys, of, kv_head), p_.k.dim, s, next);
  }
  // The same where a key's dims lie side by side.
  template <class Level, class T>
  INLAY_INLINE void qk_whole(Strided<const float> q, const float* x4, index rows, const CacheRows<T>& keys, index dim,
                             Strided<float> s, RowPrefetch next) const {
    if constexpr (reaches<Level>(sums, QkRoute::x4))
      if (x4 != nullptr) return dot_x4<Level>(x4, rows, keys, EvenChunks{dim / chunk_of<T>, chunk_of<T>}, s, next);
    const index first = 0;
    qk_rows<Level, T>(q, rows, keys, {&first, &dim, 1}, s, next);
  }

  // o = o * factor + p V
  template <class Level, class T>
  void pv(Strided<const float> p, index rows, const KvChunk<RowTile>& of, index kv_head, Strided<float> o,
          const float* factor, RowPrefetch next) const {
    pv_rows<Level, T>(p, rows, cached<T>(Which::values, of, kv_head), p_.v.dim, o, factor, next);
  }

  template <class T> INLAY_INLINE CacheRows<T> cached(Which which, const KvChunk<RowTile>& of, index kv_head) const {
    return {reinterpret_cast<const T*>(head(which, kv_head)), of.tile.rows(which) + of.at, of.count};
  }

 protected:
  INLAY_INLINE RowPrefetch ahead(Which which, const index* row, index count, UnitHeads heads) const {
    const AttentionKv<Host>& tensor = p_.cached(which);
    return RowPrefetch{.cache = head(which, heads.first),
                       .row = row,
                       .element = byte_size(tensor.dtype(), 1),
                       .count = heads.count * count,
                       .bytes = byte_size(tensor.dtype(), tensor.dim),
                       .heads = heads.count,
                       .head_stride = byte_size(tensor.dtype(), sequence_.rows(which).head_stride)}
        .share(heads.at, heads.at + 1, heads.count);
  }
  INLAY_INLINE const std::byte* head(Which which, index kv_head) const {
    return head_of(p_, sequence_, which, kv_head);
  }

  const AttentionCall& p_;
  const HostSequence& sequence_;
};

// Rows whose scores are summed dim after dim.
struct OrderedRowSource : RowSource {
  static constexpr QkSums sums = QkSums::in_order;
  using RowSource::RowSource;
};

// Rows that are multiplied in pairs of bf16.
struct Bf16RowSource : RowSource {
  static constexpr QkSums sums = QkSums::pairs;
  using RowSource::RowSource;
};

}  // namespace inlay::cpu
