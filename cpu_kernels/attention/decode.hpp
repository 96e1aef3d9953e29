// One split of the keys for few queries. Each K and V is used a few times only, so memory is the limit,
// and it gives most to whoever reads it in the order in which it lies: a token's kv heads side by side.
//
//   for each tile of key_tile keys
//     for each stretch of the tile, for each kv head        S = q K^T, the next stretch on its way
//     for each row                                          mask, softmax so far
//     for each stretch of the tile, for each kv head        O = O * factor + P V, the next one on its way
//
// One head after the other over all keys read half as fast (Zen 4, 8 kv heads of 128: 11 GB/s against 23
// for reading alone), and prefetching made up for a third of it.
#pragma once

#include "cpu_kernels/attention/int8.hpp"
#include "cpu_kernels/attention/multiply.hpp"
#include "cpu_kernels/attention/output.hpp"
#include "cpu_kernels/attention/pack.hpp"
#include "cpu_kernels/attention/rows.hpp"
#include "cpu_kernels/attention/scores.hpp"
#include "cpu_kernels/attention/unit.hpp"

namespace inlay::cpu {

// Where the keys of a tile begin, counted from the first element of the kv head.
struct KeyOffsets {
  index k[key_tile], v[key_tile];
  index first = 0, count = 0;

  // Keys begin .. end; entries up to the next whole row_tile repeat the last one.
  INLAY_INLINE void lay(const AttentionProblem& p, const AttentionSequence& sequence, index begin, index end) {
    first = begin;
    count = end > begin ? end - begin : 0;
    for (index i = 0; i < count; ++i) {
      const bool paged = sequence.blocks != nullptr;
      const index outer = paged ? sequence.blocks[(begin + i) / p.block_size] : sequence.outer;
      const index row = paged ? (begin + i) % p.block_size : sequence.row + begin + i;
      k[i] = outer * p.k.outer_stride + row * sequence.k_row_stride;
      v[i] = outer * p.v.outer_stride + row * sequence.v_row_stride;
    }
    for (index i = count; i % row_tile != 0; ++i) k[i] = k[count - 1], v[i] = v[count - 1];
  }
};

template <class Level> class DecodeSplit {
  using F = simd::Floats<Level>;

 public:
  DecodeSplit(const AttentionProblem& p, const AttentionSequence& sequence, const AttentionUnit& unit,
              const TileScratch& t)
      : p_(p),
        sequence_(sequence),
        unit_(unit),
        t_(t),
        scored_(p.bias.present() || p.alibi_slopes.present() || p.softcap > 0),
        masks_(p.mask.present() || sequence.packed_mask != nullptr),
        k_scales_(kv_scales(p.k, sequence)),
        v_scales_(kv_scales(p.v, sequence)),
        shifted_(k_scales_ == KvScales::shared && p.k.offset.present()),
        stretch_(stretch_tokens(unit.kv_heads * byte_size(p.k.type, p.dim))) {}

  // (o, m, l) of the unit's rows over the keys of the split; false if none of the rows sees any.
  bool run(KeyRange split) {
    // Ranges grow with the query: the first row's begin and the last row's end bound them all.
    const KeyRange low = unit_.row(p_, sequence_, 0).keys, high = unit_.row(p_, sequence_, unit_.rows - 1).keys;
    const index from = low.begin > split.begin ? low.begin : split.begin;
    const index to = high.end < split.end ? high.end : split.end;
    for (index r = 0; r < unit_.all(); ++r) t_.state[r] = {};
    for (index i = 0; i < unit_.all() * padded(p_.v_dim); i += F::size) F().store(t_.o + i);
    const auto lay = [&](KeyOffsets& keys, index tile) {
      keys.lay(p_, sequence_, tile > from ? tile : from, tile + key_tile < to ? tile + key_tile : to);
    };
    index tile = from / key_tile * key_tile;
    lay(keys_[0], tile);
    fetch_cold(keys_[0], 0);
    for (int now = 0; tile < to; tile += key_tile, now = 1 - now) {
      lay(keys_[1 - now], tile + key_tile);
      attend(tile, keys_[now], keys_[1 - now], low, high, keys_[now].first == from);
    }
    if (v_scales_ == KvScales::shared) apply_value_scales<Level>(p_, sequence_, unit_, t_.state, t_.o);
    return from < to;
  }

 private:
  template <class Call> static void with_cached(DType type, Call&& call) {
    type == DType::i8 ? call(Type<std::int8_t>{}) : with_float(type, call);
  }
  index stretch(const KeyOffsets& keys, index at) const {
    return keys.count - at < stretch_ ? keys.count - at : stretch_;
  }
  const void* head_of(Which which, index head) const {
    const bool keys = which == Which::keys;
    return static_cast<const std::byte*>(keys ? sequence_.k : sequence_.v) +
           head * (keys ? sequence_.k_head_stride : sequence_.v_head_stride) * bits(keys ? p_.k.type : p_.v.type) / 8;
  }
  template <class T> RowsAhead<T> ahead(Which which, const KeyOffsets& keys, index at, index head) const {
    const bool k = which == Which::keys;
    return {static_cast<const T*>(head_of(which, head)), (k ? keys.k : keys.v) + at, stretch(keys, at),
            (k ? p_.dim : p_.v_dim) * static_cast<index>(sizeof(T))};
  }
  // What is read after the stretch at `at` of K or V: the next one, or the first of V, or of the next tile.
  template <class T>
  RowsAhead<T> after(Which which, const KeyOffsets& keys, index at, const KeyOffsets& next, index head) const {
    if (at + stretch_ < keys.count) return ahead<T>(which, keys, at + stretch_, head);
    if (which == Which::keys) return ahead<T>(Which::values, keys, 0, head);
    return next.count > 0 ? ahead<T>(Which::keys, next, 0, head) : RowsAhead<T>{};
  }

  // The first stretch of a split, for which nobody was there to ask: each head asks for the next one's
  // rows. (All at once: more than the core keeps in flight, and most were lost.)
  void fetch_cold(const KeyOffsets& keys, index h) const {
    if (keys.count == 0 || h >= unit_.kv_heads) return;
    with_cached(p_.k.type,
                [&]<class T>(Type<T>) { ahead<T>(Which::keys, keys, 0, unit_.kv_head + h).fetch(0, stretch_); });
  }

  void attend(index tile, const KeyOffsets& keys, const KeyOffsets& next, KeyRange low, KeyRange high, bool cold) {
    const index skipped = keys.first - tile, end = keys.first + keys.count;
    for (index at = 0; at < keys.count; at += stretch_)
      for (index h = 0; h < unit_.kv_heads; ++h) {
        if (cold && at == 0) fetch_cold(keys, h + 1);
        scores(keys, at, next, h, t_.s + h * unit_.rows * key_tile + skipped);
      }
    const bool all_see = low.end >= end && high.begin <= keys.first;
    const bool full = all_see && keys.count == key_tile;
    for (index h = 0; h < unit_.kv_heads; ++h) weights(tile, {keys.first, end}, h, full);
    const bool mixed = masks_ || !all_see || p_.bias.present();
    for (index at = 0; at < keys.count; at += stretch_) {
      for (index h = 0; h < unit_.kv_heads; ++h) values(keys, at, next, h, skipped + at, mixed);
      for (index r = 0; r < unit_.all(); ++r) t_.factor[r] = 1;
    }
  }

  void scores(const KeyOffsets& keys, index at, const KeyOffsets& next, index h, float* s) const {
    const index pad = padded(p_.dim), rows = unit_.rows, head = unit_.kv_head + h, count = stretch(keys, at);
    const float* const q = t_.q + h * rows * pad;
    if (k_scales_ == KvScales::widened) {
      after<std::int8_t>(Which::keys, keys, at, next, head).fetch(0, stretch_);
      widen_keys<Level>(p_, sequence_, Which::keys, head, keys.first + at, keys.first + at + count, t_.kv);
      index row[key_tile];
      for (index i = 0; i < key_tile; ++i) row[i] = (i < count ? i : count - 1) * pad;
      const index first = 0;
      return dot_rows<Level, float>(q, pad, rows, t_.kv, row, count, {&first, &pad, 1}, s + at, key_tile, {});
    }
    with_cached(p_.k.type, [&]<class T>(Type<T>) {
      const index first = 0;
      dot_rows<Level, T>(q, pad, rows, static_cast<const T*>(head_of(Which::keys, head)), keys.k + at, count,
                         {&first, &p_.dim, 1}, s + at, key_tile, after<T>(Which::keys, keys, at, next, head));
    });
  }

  // Dot products of the tile -> weights, for every row of a kv head.
  void weights(index tile, KeyRange keys, index h, bool full) const {
    const bool biased = p_.bias.present() || p_.alibi_slopes.present();
    const bool k_tokens = k_scales_ == KvScales::tokens, v_tokens = v_scales_ == KvScales::tokens;
    TokenScales k_scales, v_scales;
    if (k_tokens) k_scales.gather(p_.k, sequence_, unit_.kv_head + h, tile, keys);
    if (v_tokens) v_scales.gather(p_.v, sequence_, unit_.kv_head + h, tile, keys);
    for (index r = h * unit_.rows; r < (h + 1) * unit_.rows; ++r) {
      float* const s = t_.s + r * key_tile;
      if (shifted_) shift_scores<Level>(s, t_.shift[r]);
      if (k_tokens) k_scales.scale_scores<Level>(s);
      if (scored_ || masks_ || !full) {
        const AttentionRow row = unit_.row(p_, sequence_, r);
        float bias[key_tile];
        if (biased) tile_bias<Level>(p_, sequence_, row, unit_.b, tile, keys.end, bias);
        if (scored_) bias_and_softcap<Level>(p_, biased ? bias : nullptr, s);
        if (masks_ || !full) mask_row<Level>(p_, sequence_, row, unit_.b, tile, keys.end, s);
      }
      t_.factor[r] = softmax_tile<Level>(s, t_.state[r]);
      if (v_tokens) v_scales.scale_weights<Level>(s);
    }
  }

  void values(const KeyOffsets& keys, index at, const KeyOffsets& next, index h, index column, bool mixed) const {
    const index pad = padded(p_.v_dim), rows = unit_.rows, head = unit_.kv_head + h, count = stretch(keys, at);
    const float* const weights = t_.s + h * rows * key_tile + column;
    float* const o = t_.o + h * rows * pad;
    const float* const factor = t_.factor + h * rows;
    if (v_scales_ == KvScales::widened || (v_scales_ == KvScales::none && mixed)) {
      if (p_.v.type == DType::i8) after<std::int8_t>(Which::values, keys, at, next, head).fetch(0, stretch_);
      widen_keys<Level>(p_, sequence_, Which::values, head, keys.first + at, keys.first + at + count, t_.kv);
      return tile_values<Level>(weights, rows, t_.kv, count, pad, mixed, o, factor);
    }
    with_cached(p_.v.type, [&]<class T>(Type<T>) {
      weigh_rows<Level, T>(weights, key_tile, rows, static_cast<const T*>(head_of(Which::values, head)), keys.v + at,
                           count, p_.v_dim, o, pad, factor, after<T>(Which::values, keys, at, next, head));
    });
  }

  const AttentionProblem& p_;
  const AttentionSequence& sequence_;
  const AttentionUnit& unit_;
  const TileScratch& t_;
  bool scored_, masks_;
  KvScales k_scales_, v_scales_;
  bool shifted_;
  index stretch_;  // keys
  KeyOffsets keys_[2];
};

}  // namespace inlay::cpu
