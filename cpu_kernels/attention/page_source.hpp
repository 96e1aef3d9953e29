// K and V in pages whose tokens are not rows: vLLM's layouts (core/paged_kv.hpp draws them), and any other view.
// Within a block, a head is one dense piece of memory in both.
//
//   K   a token's dims lie in pieces of x elements            qk_rows over pieces
//   V   slot-minor: a dim's slots lie side by side            the lanes run over slots: each dim is a row in
//                                                             pieces, one a block
//       neither rows nor slot-minor                           gathered into rows, 64 dims at a time
#pragma once

#include "cpu_kernels/attention/row_source.hpp"

namespace inlay::cpu {

inline constexpr index pieces_at_a_time = 64;  // of a key: dim 512 of f16 in vLLM's layout

struct PageTile : RowTile {
  index k_share[key_tile], v_share[key_tile];              // what to ask memory for in place of a row
  index run_at[key_tile], run_length[key_tile], runs = 0;  // slots of V side by side
};

class PageSource : RowSource {
 public:
  using Tile = PageTile;
  using RowSource::qk_whole;
  using RowSource::sums;

  INLAY_INLINE PageSource(const AttentionCall& p, const HostSequence& sequence)
      : RowSource(p, sequence),
        rows_of_values_(p.v.cache.extents[2] == 1),
        slots_of_values_(p.v.cache.extents[4] == 1 && (p.v.cache.strides[3] == 1 || p.v.cache.extents[3] == 1)) {}

  INLAY_INLINE void locate(PageTile& tile, index begin, index end) const {
    RowSource::locate(tile, begin, end);
    tile.runs = 0;
    each_run(p_, sequence_, begin, end, [&](const KeyRun& run) INLAY_INLINE_LAMBDA {
      tile.run_at[tile.runs] = tile.v[run.at];
      tile.run_length[tile.runs++] = run.count;
      for (index i = 0; i < run.count; ++i) {
        tile.k_share[run.at + i] = share_of(p_.k.cache, run.outer, run.row + i);
        tile.v_share[run.at + i] = share_of(p_.v.cache, run.outer, run.row + i);
      }
    });
  }

  // V that is not in rows is taken a whole tile at a time.
  INLAY_INLINE bool chunks_values() const { return rows_of_values_; }

  // Its heads are as long as a block: each asks for its own.
  INLAY_INLINE RowPrefetch ahead(Which which, const KvChunk<PageTile>& next, UnitHeads heads) const {
    const index* const share = which == Which::keys ? next.tile.k_share : next.tile.v_share;
    return RowSource::ahead(which, share + next.at, next.count, {heads.first + heads.at, 1, 0});
  }

  template <class Level, class T>
  void qk(Strided<const float> q, const float* x4, index rows, const KvChunk<PageTile>& of, index kv_head,
          Strided<float> s, RowPrefetch next) const {
    const index pieces = p_.k.cache.extents[2], x = p_.k.cache.extents[4];
    const CacheRows<T> keys = cached<T>(Which::keys, {of.tile, of.at, of.count}, kv_head);
    if (pieces == 1) return qk_whole<Level>(q, x4, rows, keys, x, s, next);
    if constexpr (reaches<Level>(sums, QkRoute::x4))
      if (x4 != nullptr) return dot_x4<Level>(x4, rows, keys, EvenChunks{pieces, p_.k.cache.strides[2]}, s, next);
    constexpr index most = pieces_at_a_time;
    index at[most], length[most];
    for (index from = 0; from < pieces; from += most, next = {}) {
      const index count = min(pieces - from, most);
      for (index j = 0; j < count; ++j) at[j] = (from + j) * p_.k.cache.strides[2], length[j] = x;
      if (from == 0) {
        qk_rows<Level, T>(q, rows, keys, {at, length, count}, s, next);
      } else {
        alignas(64) float more[max_rows][key_tile];
        qk_rows<Level, T>(q.from(0, from * x), rows, keys, {at, length, count}, {more[0], key_tile}, {});
        for (index r = 0; r < rows; ++r)
          for (index i = 0; i < of.count; ++i) s.at[r * s.stride + i] += more[r][i];
      }
    }
  }

  template <class Level, class T>
  void pv(Strided<const float> p, index rows, const KvChunk<PageTile>& of, index kv_head, Strided<float> o,
          const float* factor, RowPrefetch next) const {
    const T* const values = reinterpret_cast<const T*>(head(Which::values, kv_head));
    if (rows_of_values_) return RowSource::pv<Level, T>(p, rows, {of.tile, of.at, of.count}, kv_head, o, factor, next);
    if (slots_of_values_) return pv_slots<Level, T>(values, of.tile, p, rows, o, factor, next);
    next.ask(next.count);
    pv_gathered<Level, T>(values, of.tile, p, rows, o, factor);
  }

 private:
  // Where token `in_block`'s share of the block begins; of a row, the row itself.
  INLAY_INLINE static index share_of(const ConstPagedView<>& cache, index block, index in_block) {
    const index step = cache.extents[2] == 1 ? cache.strides[3] : cache.extents[2] * cache.extents[4];
    return block * cache.strides[0] + in_block * step;
  }

  template <class Level, class T>
  void pv_slots(const T* values, const PageTile& tile, Strided<const float> p, index rows, Strided<float> o,
                const float* factor, RowPrefetch next) const {
    if constexpr (simd::has_four_rows<Level>) {
      bool whole = rows >= min_x4_rows;
      for (index run = 0; run < tile.runs; ++run) whole = whole && tile.run_length[run] % chunk_of<T> == 0;
      if (whole) return pv_x4<Level, T>(values, tile, p, rows, o, factor, next);
    }
    index at[key_tile], length[key_tile];
    const index pieces = cut_runs<simd::Floats<Level>::size>(tile, at, length);
    each_dims<T>(values, next, [&](const CacheRows<T>& dims, index d, const RowPrefetch& share) {
      alignas(64) float sums[max_rows][key_tile];
      qk_rows<Level, T>(p, rows, dims, {at, length, pieces}, {sums[0], key_tile}, share);
      add_sums<Level>({sums[0], key_tile}, rows, dims.count, o.from(0, d), factor);
    });
  }

  // Four dims side by side (attention/dot_x4.hpp): what q is to keys, p is to them.
  template <class Level, class T>
  void pv_x4(const T* values, const PageTile& tile, Strided<const float> p, index rows, Strided<float> o,
             const float* factor, RowPrefetch next) const {
    index at[key_tile], length[key_tile];
    const ListedChunks slots{cut_runs<chunk_of<T>>(tile, at, length), at};
    each_tile(rows, max_x4_rows, [&](index r, index end) {
      alignas(64) float spread[4 * max_x4_rows * key_tile], sums[max_x4_rows][key_tile];
      interleave_x4<Level>(p.from(r), end - r, tile.count, spread);
      each_dims<T>(values, next, [&](const CacheRows<T>& dims, index d, const RowPrefetch& share) {
        dot_x4<Level>(spread, end - r, dims, slots, {sums[0], key_tile}, share);
        add_sums<Level>({sums[0], key_tile}, end - r, dims.count, o.from(r, d), factor + r);
      });
      next = {};
    });
  }

  // Runs of slots in pieces of at most `longest`; how many they are.
  template <index longest> INLAY_INLINE static index cut_runs(const PageTile& tile, index* at, index* length) {
    index pieces = 0;
    for (index run = 0; run < tile.runs; ++run)
      for (index slot = 0; slot < tile.run_length[run]; slot += longest, ++pieces) {
        at[pieces] = tile.run_at[run] + slot;
        length[pieces] = min(tile.run_length[run] - slot, longest);
      }
    return pieces;
  }
  // Calls each(dims d .. d + key_tile of slot-minor V as rows, d, what to ask for meanwhile).
  template <class T, class Each>
  INLAY_INLINE void each_dims(const T* values, const RowPrefetch& next, Each&& each) const {
    index row[key_tile];
    for (index d = 0; d < p_.v.dim; d += key_tile) {
      const index dims = min(p_.v.dim - d, key_tile);
      for (index i = 0; i < key_tile; ++i) row[i] = (d + (i < dims ? i : dims - 1)) * p_.v.cache.strides[2];
      each(CacheRows<T>{values, row, dims}, d, next.share(d, d + dims, p_.v.dim));
    }
  }
  template <class Level>
  INLAY_INLINE static void add_sums(Strided<const float> sums, index rows, index dims, Strided<float> o,
                                    const float* factor) {
    using F = simd::Floats<Level>;
    for (index r = 0; r < rows; ++r)
      for (index i = 0; i < dims; i += F::size) {
        float* const to = o.at + r * o.stride + i;
        fma(F::load(to), F(factor[r]), F::load(sums.at + r * sums.stride + i)).store(to);
      }
  }

  template <class Level, class T>
  void pv_gathered(const T* values, const PageTile& tile, Strided<const float> p, index rows, Strided<float> o,
                   const float* factor) const {
    index row[key_tile + 1];
    for (index t = 0; t <= key_tile; ++t) row[t] = t * key_tile;
    for (index d = 0; d < p_.v.dim; d += key_tile) {
      const index dims = min(p_.v.dim - d, key_tile);
      T block[key_tile * key_tile];
      for (index t = 0; t < tile.count; ++t)
        for (index i = 0; i < dims; ++i) block[t * key_tile + i] = values[tile.v[t] + dim_offset(p_.v.cache, d + i)];
      pv_rows<Level, T>(p, rows, {block, row, tile.count}, dims, o.from(0, d), factor, {});
    }
  }

  bool rows_of_values_, slots_of_values_;
};

}  // namespace inlay::cpu
