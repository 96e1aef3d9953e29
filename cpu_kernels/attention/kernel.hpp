// One kernel for all attention over keys in rows: FlashAttention-2's loop order, a task for each unit (a
// tile of rows of a kv head, or the few rows of several), in it a loop over tiles of keys.
//
//   for each split of the keys                   a fixed number of keys, whatever the threads
//     for each tile of key_tile keys that some row of the unit sees
//       S = q K^T         many rows: multiply over keys packed as columns; few: attention/decode.hpp
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

#include "cpu_kernels/attention/decode.hpp"
#include "cpu_kernels/attention/int8.hpp"
#include "cpu_kernels/attention/multiply.hpp"
#include "cpu_kernels/attention/output.hpp"
#include "cpu_kernels/attention/pack.hpp"
#include "cpu_kernels/attention/scores.hpp"
#include "cpu_kernels/attention/unit.hpp"

namespace inlay::cpu {

// q rows of one task, widened, scaled, padded with zeros.
template <class Level>
void load_queries(const AttentionProblem& p, const AttentionSequence& sequence, const AttentionUnit& unit,
                  const TileScratch& t) {
  using F = simd::Floats<Level>;
  const index pad = padded(p.dim);
  with_float(p.q.dtype, [&]<class T>(Type<T>) {
    for (index r = 0; r < unit.all(); ++r) {
      const AttentionRow row = unit.row(p, sequence, r);
      float* y = t.q + r * pad;
      widen_row<Level>(p.q.template as<T>() + offset(p.q, sequence.q_outer, sequence.q_row + row.query, row.head, 0),
                       p.dim, y);
      for (index d = 0; d < pad; d += F::size) (F::load(y + d) * F(p.scale)).store(y + d);
    }
  });
  if (!p.packs_keys && kv_scales(p.k, sequence) == KvScales::shared)
    fold_key_scales<Level>(p, sequence, unit, t.q, t.shift);
}

// S of one tile from packed keys: begin..end, of which `tile` would be column 0.
template <class Level>
void tile_scores(const AttentionProblem& p, const AttentionSequence& sequence, index kv_head, const TileScratch& t,
                 index rows, index tile, index begin, index end) {
  const index pad = padded(p.dim);
  for (index i = 0; i < (begin - tile) * pad; ++i) t.kv[i] = 0;
  widen_keys<Level>(p, sequence, Which::keys, kv_head, begin, end, t.kv + (begin - tile) * pad);
  transpose_keys<Level>(t.kv, end - tile, p.dim, t.columns);
  multiply<Level>(t.q, pad, rows, t.columns, key_tile, key_tile, p.dim, t.s, key_tile, nullptr);
}

// (o, m, l) of the unit's rows over the keys begin..end; false if none of the rows sees any.
template <class Level>
bool attend_split(const AttentionProblem& p, const AttentionSequence& sequence, const AttentionUnit& unit,
                  KeyRange split, const TileScratch& t) {
  if (!p.packs_keys) return DecodeSplit<Level>(p, sequence, unit, t).run(split);
  const auto [b, kv_head, kv_heads, first, rows] = unit;
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
    tile_values<Level>(t.s + (begin - tile), rows, t.kv, end - begin, padded(p.v_dim),
                       masks || !all_see || p.bias.present(), t.o, seen ? t.factor : nullptr);
    seen = true;
  }
  return seen;
}

// How a call is cut: the number of units, the rows of the largest, and whether splits get slots.
struct AttentionPlan {
  index kv_heads = 1;  // of a unit
  index units = 0, rows = 0, splits = 1;
  bool parallel_splits = false;
  index workers = 1;
};

template <class Sequences>
INLAY_INLINE AttentionPlan attention_plan(const AttentionProblem& p, const Sequences& sequences,
                                          const Parallel& parallel) {
  constexpr index units_a_thread = 4;  // with fewer, the last unit leaves threads waiting
  AttentionPlan plan;
  index keys = 0, most = 0, tasks_a_head = 0;
  for (index b = 0; b < p.batch; ++b) {
    const AttentionSequence sequence = sequences(b);
    const index rows = sequence.queries * p.group();
    most = rows > most ? rows : most;
    keys = sequence.keys > keys ? sequence.keys : keys;
    tasks_a_head += (sequence.keys + p.split - 1) / p.split;
  }
  plan.kv_heads = heads_of_unit(p, most, tasks_a_head, parallel.width);
  plan.rows = plan.kv_heads * (most < max_rows ? most : max_rows);
  for (index b = 0; b < p.batch; ++b)
    plan.units += (sequences(b).queries * p.group() + max_rows - 1) / max_rows *
                  ((p.kv_heads + plan.kv_heads - 1) / plan.kv_heads);
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
      UnitCursor cursor(p, sequences, plan.kv_heads);
      for (index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < plan.units;) {
        const AttentionUnit u = cursor.at(i);
        const AttentionSequence sequence = sequences(u.b);
        load_queries<Level>(p, sequence, u, t);
        clear_total<Level>(p, t, u.all());
        for (index s = 0; s * p.split < sequence.keys; ++s)
          if (attend_split<Level>(p, sequence, u, split_of(s), t)) merge_partial<Level>(p, t.o, t.state, u.all(), t);
        write_output<Level>(p, sequence, u, t);
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
    UnitCursor cursor(p, sequences, plan.kv_heads);
    for (index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < plan.units * plan.splits;) {
      const AttentionUnit u = cursor.at(i / plan.splits);
      const AttentionSequence sequence = sequences(u.b);
      const Partial slot = slot_of(i);
      t.o = slot.o;
      t.state = slot.state;
      *slot.seen = 0;
      if (i % plan.splits * p.split >= sequence.keys) continue;
      load_queries<Level>(p, sequence, u, t);
      *slot.seen = attend_split<Level>(p, sequence, u, split_of(i % plan.splits), t);
    }
  });
  std::atomic<index> next_unit{0};
  parallel(plan.workers < plan.units ? plan.workers : plan.units, [&](index worker) {
    const TileScratch t = scratch_of(worker);
    UnitCursor cursor(p, sequences, plan.kv_heads);
    for (index i; (i = next_unit.fetch_add(1, std::memory_order_relaxed)) < plan.units;) {
      const AttentionUnit u = cursor.at(i);
      clear_total<Level>(p, t, u.all());
      for (index s = 0; s < plan.splits; ++s) {
        const Partial slot = slot_of(i * plan.splits + s);
        if (*slot.seen) merge_partial<Level>(p, slot.o, slot.state, u.all(), t);
      }
      write_output<Level>(p, sequences(u.b), u, t);
    }
  });
}

}  // namespace inlay::cpu
