// One split of the keys, for the few rows of decode and the many of a prompt.
//
//   for each tile of key_tile keys
//     for each chunk of the tile, for each kv head          S = q K^T, the next chunk on its way
//     for each row                                          mask, softmax so far
//     for each chunk of the tile, for each kv head          O = O * factor + P V, the next one on its way
//
// With few rows each K and V is used a few times only, so memory is the limit, and it gives most to whoever reads it in
// the order in which it lies: a token's kv heads side by side. One head after the other over all keys read half as fast
// (Zen 4, 8 kv heads of 128: 11 GB/s against 23 for reading alone), and prefetching made up for a third of it. Many
// rows come one kv head at a time: fma is the limit, and a whole tile is laid out for them in scratch.
//
// Where keys and values lie is the source's business: attention/row_source.hpp, attention/page_source.hpp.
#pragma once

#include "cpu_kernels/attention/bf16.hpp"
#include "cpu_kernels/attention/columns.hpp"
#include "cpu_kernels/attention/int8.hpp"
#include "cpu_kernels/attention/multiply.hpp"
#include "cpu_kernels/attention/output.hpp"
#include "cpu_kernels/attention/pack.hpp"
#include "cpu_kernels/attention/row_source.hpp"
#include "cpu_kernels/attention/rows.hpp"
#include "cpu_kernels/attention/scores.hpp"
#include "cpu_kernels/attention/unit.hpp"

namespace inlay::cpu {

template <class Level, class Source> class AttentionSplit {
  using F = simd::Floats<Level>;
  using Tile = typename Source::Tile;
  static constexpr bool in_order = Source::sums == QkSums::in_order, in_pairs = Source::sums == QkSums::pairs;

 public:
  AttentionSplit(const AttentionCall& p, const HostSequence& sequence, const AttentionUnit& unit, const TileScratch& t)
      : p_(p),
        sequence_(sequence),
        unit_(unit),
        t_(t),
        source_(p, sequence),
        low_(unit.row(p, sequence, 0).keys),
        high_(unit.row(p, sequence, unit.rows - 1).keys),
        scored_(p.biased() || p.softcap > 0),
        masks_(p.mask.present() || sequence.packed_mask != nullptr),
        route_(qk_route<Level>(p.k, Source::sums, in_order ? unit.rows : p.rows_of_head())),
        many_(in_pairs || (in_order && unit.rows > shared_unit_rows)),
        k_scales_(scales(Which::keys)),
        v_scales_(scales(Which::values)),
        shifted_(k_scales_ == KvScales::shared && p.k.offset.present()),
        kv_chunk_(many_ ? key_tile : kv_chunk_tokens(unit.kv_heads * byte_size(p.k.dtype(), p.k.dim))) {
    if (in_order && kv_chunk_ < lane_pad) kv_chunk_ = lane_pad;
  }

  // (o, m, l) of the unit's rows over these keys, of which some row sees each. `end`: up to where this worker goes
  // on with the splits behind, whose first chunk is asked for in time. `cold`: nobody has asked for this one's.
  void run(KeyRange keys, index end, bool cold) {
    for (index r = 0; r < unit_.all(); ++r) t_.state[r] = {};
    for (index i = 0; i < unit_.all() * F::size; i += F::size) F().store(t_.sums + i);
    for (index i = 0; i < unit_.all() * padded(p_.v.dim); i += F::size) F().store(t_.o + i);
    locate(tiles_[0], keys.begin, keys.end);
    if (cold) fetch_cold(tiles_[0], 0);
    for (int now = 0; tiles_[now].first < keys.end; now = 1 - now) {
      const Tile& tile = tiles_[now];
      const index behind = tile.first + tile.count;
      locate(tiles_[1 - now], behind, behind < keys.end ? keys.end : end);
      attend(tile, tiles_[1 - now], cold && tile.first == keys.begin);
    }
    for (index r = 0; r < unit_.all(); ++r) t_.state[r].sum = reduce_sum(F::load(t_.sums + r * F::size));
    if (v_scales_ == KvScales::shared) apply_value_scales<Level>(p_, sequence_, unit_, t_.state, t_.o);
  }

 private:
  // In order, int8 is widened for few rows too: with scales outside of the sums the bits would not be those of many.
  KvScales scales(Which which) const {
    const KvScales own = kv_scales(p_.cached(which), sequence_);
    return Source::sums != QkSums::over_lanes && own != KvScales::none ? KvScales::widened : own;
  }
  template <class Call> static void with_cached(DType type, Call&& call) {
    type == DType::i8 ? call(Type<std::int8_t>{}) : with_float(type, call);
  }
  void locate(Tile& tile, index begin, index end) const {
    const index bound = (begin / key_tile + 1) * key_tile;
    source_.locate(tile, begin, min(end, bound));
  }
  KvChunk<Tile> kv_chunk(const Tile& tile, index at) const { return {tile, at, min(tile.count - at, kv_chunk_)}; }
  static KeyRange range(const KvChunk<Tile>& of) { return {of.tile.first + of.at, of.tile.first + of.at + of.count}; }
  // What is read after a chunk of K or V: the next one, or the first of V, or of the next tile.
  RowPrefetch after(Which which, const KvChunk<Tile>& now, const Tile& next, index h) const {
    const index behind = now.at + now.count;
    const UnitHeads heads{unit_.kv_head, unit_.kv_heads, h};
    if (behind < now.tile.count) return source_.ahead(which, kv_chunk(now.tile, behind), heads);
    if (which == Which::keys) return source_.ahead(Which::values, kv_chunk(now.tile, 0), heads);
    return next.count > 0 ? source_.ahead(Which::keys, kv_chunk(next, 0), heads) : RowPrefetch{};
  }

  // The first chunk of a split, for which nobody was there to ask: each head asks for the next one's
  // rows. (All at once: more than the core keeps in flight, and most were lost.)
  void fetch_cold(const Tile& tile, index h) const {
    if (tile.count > 0 && h < unit_.kv_heads)
      source_.ahead(Which::keys, kv_chunk(tile, 0), {unit_.kv_head + h, 1, 0}).ask(kv_chunk_);
  }

  // Rows of a kv head that are taken through a tile: of many those that see some of it, which grow with the query.
  // Under a causal mask half of them do not see the last tile.
  struct Rows {
    index begin, end;
    INLAY_INLINE index count() const { return end - begin; }
  };
  Rows rows_of(const Tile& tile) const {
    Rows rows{0, unit_.rows};
    if (!many_ || all_see_) return rows;
    const auto keys = [&](index r) { return unit_.row(p_, sequence_, r).keys; };
    while (rows.begin < rows.end && keys(rows.begin).end <= tile.first) ++rows.begin;
    while (rows.begin < rows.end && keys(rows.end - 1).begin >= tile.first + tile.count) --rows.end;
    return rows;
  }

  // each(first, rows, keys): the rows that are taken, in parts, with as many of the keys as the last row of each sees.
  // The keys behind would have weights of 0, and no score that counts.
  template <class Each> INLAY_INLINE void each_part(KeyRange keys, Each&& each) const {
    if (all_see_) return each(index{0}, taken_.count(), keys.end - keys.begin);
    for (index first = taken_.begin; first < taken_.end; first += part_rows) {
      const index rows = min(part_rows, taken_.end - first);
      const index end = min(unit_.row(p_, sequence_, first + rows - 1).keys.end, keys.end);
      each(first - taken_.begin, rows, end > keys.begin ? end - keys.begin : 0);
    }
  }

  void attend(const Tile& tile, const Tile& next, bool cold) {
    const index column = tile.first % key_tile, end = tile.first + tile.count;
    all_see_ = low_.end >= end && high_.begin <= tile.first;
    taken_ = rows_of(tile);
    for (index at = 0; at < tile.count; at += kv_chunk_)
      for (index h = 0; h < unit_.kv_heads; ++h) {
        if (cold && at == 0) fetch_cold(tile, h + 1);
        float* const s = t_.s + (h * unit_.rows + taken_.begin) * key_tile + column + at;
        if constexpr (in_pairs)
          scores_of_pairs(kv_chunk(tile, at), next, h, s);
        else
          scores(kv_chunk(tile, at), next, h, s);
      }
    for (index h = 0; h < unit_.kv_heads; ++h) probabilities(tile, h, all_see_ && tile.count == key_tile);
    const bool mixed = masks_ || !all_see_ || p_.bias.present();
    const index step = source_.chunks_values() ? kv_chunk_ : key_tile;
    for (index at = 0; at < tile.count; at += step) {
      const KvChunk<Tile> of{tile, at, min(tile.count - at, step)};
      for (index h = 0; h < unit_.kv_heads; ++h)
        if constexpr (in_pairs)
          values_of_pairs(of, next, h, column + at, mixed);
        else
          values(of, next, h, column + at, mixed);
      for (index r = 0; r < unit_.all(); ++r) t_.factor[r] = 1;
    }
  }

  void scores(const KvChunk<Tile>& of, const Tile& next, index h, float* to) const {
    const index pad = padded(p_.k.dim), rows = taken_.count(), head = unit_.kv_head + h;
    const index first = (h * unit_.rows + taken_.begin) * pad;
    const Strided<const float> q{t_.q + first, pad};
    const float* const x4 = route_ == QkRoute::x4 ? t_.x4 + 4 * first : nullptr;
    const Strided<float> s{to, key_tile};
    const RowPrefetch ahead = after(Which::keys, of, next, h);
    if (k_scales_ == KvScales::widened) {
      widen_keys<Level>(p_, sequence_, Which::keys, head, range(of), t_.kv, ahead);
      index row[key_tile];
      for (index i = 0; i < key_tile; ++i) row[i] = (i < of.count ? i : of.count - 1) * pad;
      const CacheRows<float> keys{t_.kv, row, of.count};
      if constexpr (in_order)
        return ordered_scores(q, range(of), keys, s, {});
      else
        return source_.template qk_whole<Level>(q, x4, rows, keys, pad, s, {});
    }
    with_cached(p_.k.dtype(), [&]<class T>(Type<T>) {
      if constexpr (!in_order)
        source_.template qk<Level, T>(q, x4, rows, of, head, s, ahead);
      else if constexpr (!std::is_same_v<T, std::int8_t>)
        ordered_scores(q, range(of), source_.template cached<T>(Which::keys, of, head), s, ahead);
    });
  }

  template <class T>
  void ordered_scores(Strided<const float> q, KeyRange range, const CacheRows<T>& keys, Strided<float> s,
                      RowPrefetch ahead) const {
    if constexpr (reaches<Level>(QkSums::in_order, QkRoute::squares))
      if (route_ == QkRoute::squares) return dot_columns<Level>(q, unit_.rows, keys, p_.k.dim, s, ahead);
    pack_columns<Level>(keys, p_.k.dim, t_.columns, ahead);
    each_part(range, [&](index part, index rows, index seen) {
      multiply<Level, float>(q.from(part), rows, {t_.columns, key_tile}, padded(seen), p_.k.dim, s.from(part), nullptr);
    });
  }

  // Dot products of the tile -> probabilities, for every row of a kv head. `full`: every row sees a whole tile.
  void probabilities(const Tile& tile, index h, bool full) const {
    const index column = tile.first % key_tile, origin = tile.first - column, end = tile.first + tile.count;
    const bool k_tokens = k_scales_ == KvScales::tokens, v_tokens = v_scales_ == KvScales::tokens;
    TokenScales k_scales, v_scales;
    if (k_tokens) k_scales.gather(p_, sequence_, p_.k, unit_.kv_head + h, {tile.first, end});
    if (v_tokens) v_scales.gather(p_, sequence_, p_.v, unit_.kv_head + h, {tile.first, end});
    const bool finite_scales = !v_tokens || all_finite<Level>(v_scales.at, key_tile);
    for (index r = h * unit_.rows + taken_.begin; r < h * unit_.rows + taken_.end; ++r) {
      float* const s = t_.s + r * key_tile;
      if (shifted_) shift_scores<Level>(s, t_.shift[r]);
      if (k_tokens) k_scales.scale_scores<Level>(s);
      if (scored_ || masks_ || !full) {
        AttentionRow row = unit_.row(p_, sequence_, r);
        if (row.keys.begin < tile.first) row.keys.begin = tile.first;
        if (row.keys.end > end) row.keys.end = end;
        float bias[key_tile];
        if (p_.biased()) tile_bias<Level>(p_, sequence_, row, unit_.b, origin, end, bias);
        if (scored_) bias_and_softcap<Level>(p_, p_.biased() ? bias : nullptr, s);
        if (masks_ || !full) mask_row<Level>(p_, sequence_, row, unit_.b, origin, end, s);
      }
      t_.factor[r] = softmax_tile<Level>(s, t_.state[r].max, t_.sums + r * F::size);
      if constexpr (in_pairs) round_weights<Level>(s);
      if (v_tokens) v_scales.scale_probabilities<Level>(s);
      if (finite_scales) continue;
      for (index j = tile.first; j < end; ++j)  // a weight of 0 that meets a scale of NaN, or infinity, is NaN
        if (float& weight = s[j - origin]; weight == 0 && sees(r, j)) weight *= v_scales.at[j - origin];
    }
  }

  bool sees(index r, index key) const { return cpu::sees(p_, sequence_, unit_.row(p_, sequence_, r), unit_.b, key); }

  void values(const KvChunk<Tile>& of, const Tile& next, index h, index column, bool mixed) const {
    const index pad = padded(p_.v.dim), rows = taken_.count(), first = h * unit_.rows + taken_.begin;
    const index head = unit_.kv_head + h;
    const Strided<const float> p{t_.s + first * key_tile + column, key_tile};
    const Strided<float> o{t_.o + first * pad, pad};
    const float* const factor = t_.factor + first;
    const RowPrefetch ahead = after(Which::values, of, next, h);
    if (v_scales_ == KvScales::widened || many_ || (p_.v.dtype() != DType::i8 && mixed)) {
      widen_keys<Level>(p_, sequence_, Which::values, head, range(of), t_.kv, ahead);
      if (mixed && !all_finite<Level>(t_.kv, of.count * pad))
        return visible_values<Level>(p, rows, t_.kv, of.count, o, factor,
                                     [&](index r, index j) { return sees(first + r, of.tile.first + of.at + j); });
      return each_part(range(of), [&](index part, index count, index seen) {
        multiply<Level, float>(p.from(part), count, {t_.kv, pad}, pad, seen, o.from(part), factor + part);
      });
    }
    with_cached(p_.v.dtype(),
                [&]<class T>(Type<T>) { source_.template pv<Level, T>(p, rows, of, head, o, factor, ahead); });
  }

  // Both of a tile in pairs of bf16 (attention/bf16.hpp).
  void scores_of_pairs(const KvChunk<Tile>& of, const Tile& next, index h, float* to) const {
    const index pad = padded_pairs(p_.k.dim), row = h * unit_.rows + taken_.begin;
    Bf16Pair* const columns = pairs_in(t_.columns);
    with_float(p_.k.dtype(), [&]<class T>(Type<T>) {
      const CacheRows<T> keys = source_.template cached<T>(Which::keys, of, unit_.kv_head + h);
      pack_column_pairs<Level>(keys, p_.k.dim, columns, after(Which::keys, of, next, h));
    });
    const F scale(p_.scale);
    const Strided<const Bf16Pair> q{pairs_in(t_.q) + row * pad, pad};
    const Strided<float> s{to, key_tile};
    each_part(range(of), [&](index part, index rows, index seen) {
      multiply<Level, Bf16Pair>(q.from(part), rows, {columns, key_tile}, padded(seen), (p_.k.dim + 1) / 2, s.from(part),
                                nullptr, [=](F sum) INLAY_INLINE_LAMBDA { return sum * scale; });
    });
  }
  void values_of_pairs(const KvChunk<Tile>& of, const Tile& next, index h, index column, bool mixed) const {
    const index pad = padded(p_.v.dim), first = h * unit_.rows + taken_.begin;
    const index odd = column % 2, key = of.tile.first + of.at - odd;  // of the first pair
    Bf16Pair* const v = pairs_in(t_.kv);
    with_float(p_.v.dtype(), [&]<class T>(Type<T>) {
      const CacheRows<T> values = source_.template cached<T>(Which::values, of, unit_.kv_head + h);
      pack_value_pairs<Level>(values, odd != 0, p_.v.dim, v, after(Which::values, of, next, h));
    });
    const Strided<const Bf16Pair> p{pairs_in(t_.s + first * key_tile) + column / 2, key_tile};
    const Strided<float> o{t_.o + first * pad, pad};
    const float* const factor = t_.factor + first;
    const index pairs = (odd + of.count + 1) / 2;
    if (mixed && !all_finite<Level>(v, pairs * pad))
      return visible_value_pairs<Level>(p, taken_.count(), v, pairs, o, factor,
                                        [&](index r, index j) { return sees(first + r, key + j); });
    each_part(range(of), [&](index part, index rows, index seen) {
      multiply<Level, Bf16Pair>(p.from(part), rows, {v, pad}, pad, (odd + seen + 1) / 2, o.from(part), factor + part);
    });
  }

  const AttentionCall& p_;
  const HostSequence& sequence_;
  const AttentionUnit& unit_;
  const TileScratch& t_;
  Source source_;
  KeyRange low_, high_;  // of the unit's first row and its last: ranges grow with the query
  bool scored_, masks_;
  QkRoute route_;
  bool many_;  // rows: keys and values are laid out in scratch for them. Pairs of keys are not torn into chunks.
  KvScales k_scales_, v_scales_;
  bool shifted_;
  index kv_chunk_;  // keys
  bool all_see_{};  // every row every key of the tile in hand
  Rows taken_{};    // through it
  Tile tiles_[2];
};

}  // namespace inlay::cpu
