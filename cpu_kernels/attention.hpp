// One kernel for all attention over keys in rows: FlashAttention-2's loop order, a task for each tile of
// queries and kv head, in it a loop over tiles of keys.
//
//   for each split of the keys                   a fixed number of keys, whatever the threads
//     for each tile of key_tile keys that some row of the tile sees
//       S = q K^T         multiply over keys packed as columns, or dot_rows over keys as they lie
//       S = mask(softcap(S + bias))
//       o, m, l           online softmax; P V with deferred division
//     merge into (o, m, l) of the whole row, in the order of the splits
//   sink, division, rounding
//
// The rows of a tile are (query, head of the group) pairs: all heads that share a kv head share its
// tiles. Where tasks are few, splits run in parallel, each into a slot of its own, and are merged
// behind; the arithmetic is the same, so the bits are.
#pragma once

#include <atomic>

#include <inlay/core/parallel.hpp>
#include <inlay/core/workspace.hpp>

#include "cpu_kernels/attention_multiply.hpp"
#include "cpu_kernels/attention_output.hpp"
#include "cpu_kernels/attention_pack.hpp"
#include "cpu_kernels/attention_scores.hpp"

namespace inlay::cpu {

// q rows of one task, widened, scaled, padded with zeros.
template <class Level>
void load_queries(const AttentionProblem& p, const AttentionSequence& sequence, index kv_head, index first, index rows,
                  float* q) {
  using F = simd::Floats<Level>;
  const index pad = padded(p.dim);
  with_float(p.q.dtype, [&]<class T>(Type<T>) {
    for (index r = 0; r < rows; ++r) {
      const AttentionRow row = attention_row(p, sequence, kv_head, first + r);
      float* y = q + r * pad;
      widen_row<Level>(p.q.template as<T>() + offset(p.q, sequence.q_outer, sequence.q_row + row.query, row.head, 0),
                       p.dim, y);
      for (index d = 0; d < pad; d += F::size) (F::load(y + d) * F(p.scale)).store(y + d);
    }
  });
}

// S of one tile: keys begin..end, of which `tile` would be column 0.
template <class Level>
void tile_scores(const AttentionProblem& p, const AttentionSequence& sequence, index kv_head, const TileScratch& t,
                 index rows, index tile, index begin, index end) {
  const index pad = padded(p.dim);
  if (p.packs_keys) {
    for (index i = 0; i < (begin - tile) * pad; ++i) t.kv[i] = 0;
    widen_keys<Level>(p, sequence, Which::keys, kv_head, begin, end, t.kv + (begin - tile) * pad);
    transpose_keys<Level>(t.kv, end - tile, p.dim, t.columns);
    return multiply<Level>(t.q, pad, rows, t.columns, key_tile, key_tile, p.dim, t.s, key_tile, nullptr);
  }
  if (p.k.type == DType::i8) {
    widen_keys<Level>(p, sequence, Which::keys, kv_head, begin, end, t.kv);
    return dot_rows<Level>(t.q, pad, rows, static_cast<const float*>(t.kv), pad, end - begin, 0, p.dim,
                           t.s + (begin - tile));
  }
  with_float(p.k.type, [&]<class T>(Type<T>) {
    const T* keys = static_cast<const T*>(sequence.k) + kv_head * sequence.k_head_stride +
                    sequence.outer * p.k.outer_stride + (sequence.row + begin) * sequence.k_row_stride;
    dot_rows<Level>(t.q, pad, rows, keys, sequence.k_row_stride, end - begin, sequence.keys - begin - key_tile, p.dim,
                    t.s + (begin - tile));
  });
}

// o = o * factor + P V. Where a mask covers a key for some rows only and its V is not finite, the
// rows that do not see it must not meet it: 0 * NaN would be NaN.
template <class Level>
void tile_values(const AttentionProblem& p, const TileScratch& t, index rows, index skipped, index keys, bool mixed,
                 const float* factor) {
  using F = simd::Floats<Level>;
  const index pad = padded(p.v_dim);
  if (!mixed || all_finite<Level>(t.kv, keys * pad))
    return multiply<Level>(t.s + skipped, key_tile, rows, t.kv, pad, pad, keys, t.o, pad, factor);
  for (index r = 0; r < rows; ++r) {
    float* o = t.o + r * pad;
    for (index d = 0; d < pad; d += F::size) (factor ? F::load(o + d) * F(factor[r]) : F()).store(o + d);
    for (index j = 0; j < keys; ++j) {
      const float weight = t.s[r * key_tile + skipped + j];
      if (weight == 0) continue;
      for (index d = 0; d < pad; d += F::size) fma(F(weight), F::load(t.kv + j * pad + d), F::load(o + d)).store(o + d);
    }
  }
}

// (o, m, l) of `rows` rows over the keys begin..end; false if none of the rows sees any.
template <class Level>
bool attend_split(const AttentionProblem& p, const AttentionSequence& sequence, index b, index kv_head, index first,
                  index rows, KeyRange split, const TileScratch& t) {
  // Ranges grow with the query: the first row's begin and the last row's end bound them all.
  const AttentionRow low = attention_row(p, sequence, kv_head, first);
  const AttentionRow high = attention_row(p, sequence, kv_head, first + rows - 1);
  const index from = low.keys.begin > split.begin ? low.keys.begin : split.begin;
  const index to = high.keys.end < split.end ? high.keys.end : split.end;
  const bool scored = p.bias.present() || p.alibi_slopes.present() || p.softcap > 0;
  const bool masks = p.mask.present() || sequence.packed_mask != nullptr;
  for (index r = 0; r < rows; ++r) t.state[r] = {};
  bool seen = false;
  for (index tile = from / key_tile * key_tile; tile < to; tile += key_tile) {
    const index begin = tile > from ? tile : from, end = tile + key_tile < to ? tile + key_tile : to;
    tile_scores<Level>(p, sequence, kv_head, t, rows, tile, begin, end);
    const bool all_see = low.keys.end >= end && high.keys.begin <= begin;
    const bool full = all_see && begin == tile && end == tile + key_tile;
    for (index r = 0; r < rows; ++r) {
      float* s = t.s + r * key_tile;
      if (scored || masks || !full) {
        const AttentionRow row = attention_row(p, sequence, kv_head, first + r);
        float bias[key_tile];
        const bool biased = p.bias.present() || p.alibi_slopes.present();
        if (biased) tile_bias<Level>(p, sequence, row, b, tile, end, bias);
        if (scored) bias_and_softcap<Level>(p, biased ? bias : nullptr, s);
        if (masks || !full) mask_row<Level>(p, sequence, row, b, tile, end, s);
      }
      t.factor[r] = softmax_tile<Level>(s, t.state[r]);
    }
    widen_keys<Level>(p, sequence, Which::values, kv_head, begin, end, t.kv);
    tile_values<Level>(p, t, rows, begin - tile, end - begin, masks || !all_see || p.bias.present(),
                       seen ? t.factor : nullptr);
    seen = true;
  }
  return seen;
}

// Which rows a task holds.
struct AttentionUnit {
  index b, kv_head, first, rows;
};

// Walks the units of a batch in order: sequence by sequence, the last queries (they see most) first.
template <class Sequences> class UnitCursor {
 public:
  UnitCursor(const AttentionProblem& p, const Sequences& sequences) : p_(p), sequences_(sequences) {}
  // `unit` never falls from call to call.
  INLAY_INLINE AttentionUnit at(index unit) {
    for (;;) {
      const index rows = sequences_(b_).queries * p_.group(), tiles = (rows + max_rows - 1) / max_rows;
      if (unit < base_ + tiles * p_.kv_heads) {
        const index first = (tiles - 1 - (unit - base_) / p_.kv_heads) * max_rows;
        return {b_, (unit - base_) % p_.kv_heads, first, rows - first < max_rows ? rows - first : max_rows};
      }
      base_ += tiles * p_.kv_heads;
      ++b_;
    }
  }

 private:
  const AttentionProblem& p_;
  const Sequences& sequences_;
  index b_ = 0, base_ = 0;
};

// How a call is cut: the number of units, the rows of the largest, and whether splits get slots.
struct AttentionPlan {
  index units = 0, rows = 0, splits = 1;
  bool parallel_splits = false;
  index workers = 1;
};

template <class Sequences>
INLAY_INLINE AttentionPlan attention_plan(const AttentionProblem& p, const Sequences& sequences,
                                          const Parallel& parallel) {
  constexpr index units_a_thread = 4;  // with fewer, the last unit leaves threads waiting
  AttentionPlan plan;
  index keys = 0;
  for (index b = 0; b < p.batch; ++b) {
    const AttentionSequence sequence = sequences(b);
    const index rows = sequence.queries * p.group();
    plan.units += (rows + max_rows - 1) / max_rows * p.kv_heads;
    plan.rows = rows > plan.rows ? rows : plan.rows;
    keys = sequence.keys > keys ? sequence.keys : keys;
  }
  plan.rows = plan.rows < max_rows ? plan.rows : max_rows;
  plan.splits = (keys + p.split - 1) / p.split;
  plan.parallel_splits = parallel.width > 1 && plan.splits > 1 && plan.units < units_a_thread * parallel.width;
  const index tasks = plan.parallel_splits ? plan.units * plan.splits : plan.units;
  plan.workers = tasks < parallel.width ? tasks : parallel.width;
  return plan;
}

template <class Sequences>
std::size_t attention_scratch_bytes(const AttentionProblem& p, const Sequences& sequences, const Parallel& parallel) {
  const AttentionPlan plan = attention_plan(p, sequences, parallel);
  std::size_t bytes = static_cast<std::size_t>(plan.workers) * tile_scratch_bytes(p, plan.rows);
  if (plan.parallel_splits) bytes += static_cast<std::size_t>(plan.units * plan.splits) * partial_bytes(p, plan.rows);
  return bytes;
}

// sequences(b) describes sequence b.
template <class Level, class Sequences>
void attention(const AttentionProblem& p, const Sequences& sequences, const Parallel& parallel, Workspace workspace) {
  const AttentionPlan plan = attention_plan(p, sequences, parallel);
  if (plan.units == 0) return;
  WorkspaceCutter cutter(workspace);
  std::byte* scratch = cutter.take<std::byte>(plan.workers * static_cast<index>(tile_scratch_bytes(p, plan.rows)));
  const auto scratch_of = [&](index worker) {
    return TileScratch(p, plan.rows, scratch + worker * static_cast<index>(tile_scratch_bytes(p, plan.rows)));
  };
  const auto split_of = [&](index s) { return KeyRange{s * p.split, (s + 1) * p.split}; };
  std::atomic<index> next{0};
  if (!plan.parallel_splits) {
    parallel(plan.workers, [&](index worker) {
      const TileScratch t = scratch_of(worker);
      UnitCursor cursor(p, sequences);
      for (index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < plan.units;) {
        const AttentionUnit u = cursor.at(i);
        const AttentionSequence sequence = sequences(u.b);
        load_queries<Level>(p, sequence, u.kv_head, u.first, u.rows, t.q);
        clear_total<Level>(p, t, u.rows);
        for (index s = 0; s * p.split < sequence.keys; ++s)
          if (attend_split<Level>(p, sequence, u.b, u.kv_head, u.first, u.rows, split_of(s), t))
            merge_partial<Level>(p, t.o, t.state, u.rows, t);
        write_output<Level>(p, sequence, u.kv_head, u.first, u.rows, t);
      }
    });
    return;
  }
  std::byte* slots = cutter.take<std::byte>(plan.units * plan.splits * static_cast<index>(partial_bytes(p, plan.rows)));
  const auto slot_of = [&](index i) {
    return Partial(p, plan.rows, slots + i * static_cast<index>(partial_bytes(p, plan.rows)));
  };
  parallel(plan.workers, [&](index worker) {
    TileScratch t = scratch_of(worker);
    UnitCursor cursor(p, sequences);
    for (index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < plan.units * plan.splits;) {
      const AttentionUnit u = cursor.at(i / plan.splits);
      const AttentionSequence sequence = sequences(u.b);
      const Partial slot = slot_of(i);
      t.o = slot.o;
      t.state = slot.state;
      *slot.seen = 0;
      if (i % plan.splits * p.split >= sequence.keys) continue;
      load_queries<Level>(p, sequence, u.kv_head, u.first, u.rows, t.q);
      *slot.seen = attend_split<Level>(p, sequence, u.b, u.kv_head, u.first, u.rows, split_of(i % plan.splits), t);
    }
  });
  std::atomic<index> next_unit{0};
  parallel(plan.workers < plan.units ? plan.workers : plan.units, [&](index worker) {
    const TileScratch t = scratch_of(worker);
    UnitCursor cursor(p, sequences);
    for (index i; (i = next_unit.fetch_add(1, std::memory_order_relaxed)) < plan.units;) {
      const AttentionUnit u = cursor.at(i);
      clear_total<Level>(p, t, u.rows);
      for (index s = 0; s < plan.splits; ++s) {
        const Partial slot = slot_of(i * plan.splits + s);
        if (*slot.seen) merge_partial<Level>(p, slot.o, slot.state, u.rows, t);
      }
      write_output<Level>(p, sequences(u.b), u.kv_head, u.first, u.rows, t);
    }
  });
}

}  // namespace inlay::cpu
