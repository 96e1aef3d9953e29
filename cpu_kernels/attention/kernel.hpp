// One kernel for all attention over keys in rows: FlashAttention-2's loop order, a task for each unit (a
// tile of rows of a kv head, or the few rows of several), in it a loop over tiles of keys.
//
//   for each split of the keys                   a fixed number of keys, whatever the threads
//     for each tile of key_tile keys that some row of the unit sees
//       S = q K^T         many rows: multiply over keys packed as columns; few: attention/split.hpp
//       S = mask(softcap(S + bias))
//       o, m, l           online softmax; P V with deferred division
//     merge into (o, m, l) of the whole row, in the order of the splits
//   sink, division, rounding
//
// The rows of a tile are (query, head of the group) pairs: all heads that share a kv head share its
// tiles. Where units are few, runs of splits go in parallel, each split leaves (o, m, l) in a place of its own, and
// they are merged behind; the arithmetic is the same, so the bits are.
#pragma once

#include <atomic>

#include <inlay/core/parallel.hpp>
#include <inlay/core/workspace.hpp>

#include "cpu_kernels/attention/int8.hpp"
#include "cpu_kernels/attention/multiply.hpp"
#include "cpu_kernels/attention/output.hpp"
#include "cpu_kernels/attention/pack.hpp"
#include "cpu_kernels/attention/scores.hpp"
#include "cpu_kernels/attention/split.hpp"
#include "cpu_kernels/attention/unit.hpp"

namespace inlay::cpu {

// q rows of one task, widened, scaled, padded with zeros.
template <class Level>
void load_queries(const AttentionProblem& p, const AttentionSequence& sequence, const AttentionUnit& unit,
                  const TileScratch& t) {
  using F = simd::Floats<Level>;
  const index pad = padded(p.k.dim);
  const F scale(p.scale * p.key_scale);
  with_float(p.q.dtype, [&]<class T>(Type<T>) {
    for (index r = 0; r < unit.all(); ++r) {
      const AttentionRow row = unit.row(p, sequence, r);
      float* y = t.q + r * pad;
      widen_row<Level>(p.q.template as<T>() + offset(p.q, sequence.q_outer, sequence.q_row + row.query, row.head, 0),
                       p.k.dim, y);
      for (index d = 0; d < pad; d += F::size) (F::load(y + d) * scale).store(y + d);
    }
  });
  if (!p.packs_keys && kv_scales(p.k, sequence) == KvScales::shared)
    fold_key_scales<Level>(p, sequence, unit, t.q, t.shift);
}

// S of one tile from packed keys, of which `tile` would be column 0.
template <class Level>
void packed_scores(const AttentionProblem& p, const AttentionSequence& sequence, const AttentionUnit& unit,
                   const TileScratch& t, index tile, KeyRange keys) {
  const index pad = padded(p.k.dim), skipped = (keys.begin - tile) * pad;
  for (index i = 0; i < skipped; ++i) t.kv[i] = 0;
  widen_keys<Level>(p, sequence, Which::keys, unit.kv_head, keys, t.kv + skipped);
  transpose_keys<Level>(t.kv, keys.end - tile, p.k.dim, t.columns);
  multiply<Level>({t.q, pad}, unit.rows, {t.columns, key_tile}, key_tile, p.k.dim, {t.s, key_tile}, nullptr);
}

// (o, m, l) of many rows over these keys.
template <class Level>
void attend_packed(const AttentionProblem& p, const AttentionSequence& sequence, const AttentionUnit& unit,
                   KeyRange keys, const TileScratch& t) {
  const AttentionRow low = unit.row(p, sequence, 0), high = unit.row(p, sequence, unit.rows - 1);
  const bool scored = p.biased() || p.softcap > 0;
  const bool masks = p.mask.present() || sequence.packed_mask != nullptr;
  for (index r = 0; r < unit.rows; ++r) t.state[r] = {};
  for (index tile = keys.begin / key_tile * key_tile; tile < keys.end; tile += key_tile) {
    const index begin = tile > keys.begin ? tile : keys.begin;
    const index end = tile + key_tile < keys.end ? tile + key_tile : keys.end;
    packed_scores<Level>(p, sequence, unit, t, tile, {begin, end});
    const bool all_see = low.keys.end >= end && high.keys.begin <= begin;
    const bool full = all_see && begin == tile && end == tile + key_tile;
    for (index r = 0; r < unit.rows; ++r) {
      float* s = t.s + r * key_tile;
      if (scored || masks || !full) {
        const AttentionRow row = unit.row(p, sequence, r);
        float bias[key_tile];
        if (p.biased()) tile_bias<Level>(p, sequence, row, unit.b, tile, end, bias);
        if (scored) bias_and_softcap<Level>(p, p.biased() ? bias : nullptr, s);
        if (masks || !full) mask_row<Level>(p, sequence, row, unit.b, tile, end, s);
      }
      t.factor[r] = softmax_tile<Level>(s, t.state[r]);
    }
    widen_keys<Level>(p, sequence, Which::values, unit.kv_head, {begin, end}, t.kv);
    tile_values<Level>({t.s + (begin - tile), key_tile}, unit.rows, t.kv, end - begin,
                       masks || !all_see || p.bias.present(), {t.o, padded(p.v.dim)},
                       begin > keys.begin ? t.factor : nullptr);
  }
}

inline constexpr index tasks_a_thread = 4;  // with fewer, the last one leaves threads waiting

template <class Sequences>
INLAY_INLINE AttentionPlan attention_plan(const AttentionProblem& p, const Sequences& sequences, index width) {
  AttentionPlan plan;
  plan.width = width;
  for (index b = 0; b < p.batch; ++b) {
    const index splits = plan.splits_of(sequences(b).keys, p);
    plan.tasks_a_head += splits;
    plan.splits = splits > plan.splits ? splits : plan.splits;
  }
  for (index b = 0; b < p.batch; ++b) {
    const index rows = sequences(b).queries * p.group(), heads = plan.heads_of_unit(p, rows);
    const index largest = heads * (rows < max_rows ? rows : max_rows);
    plan.rows = largest > plan.rows ? largest : plan.rows;
    plan.units += (rows + max_rows - 1) / max_rows * ((p.kv_heads + heads - 1) / heads);
  }
  // The fewest runs that keep all threads busy: the splits of a run hand each other a stretch that is on its way.
  const auto busy = [&](index tasks) {
    return tasks >= tasks_a_thread * width || (2 * tasks >= tasks_a_thread * width && tasks % width == 0);
  };
  while (width > 1 && plan.units > 0 && plan.runs < plan.splits && !busy(plan.units * plan.runs)) ++plan.runs;
  return plan;
}

// Enough for any lengths up to these: a captured step may see others.
template <class Sequences>
std::size_t attention_scratch_bytes(const AttentionProblem& p, const Sequences& sequences, const Parallel& parallel) {
  index rows = 0, units = 0, splits = 0;
  for (index b = 0; b < p.batch; ++b) {
    const AttentionSequence sequence = sequences(b);
    const index of_head = sequence.queries * p.group(), heads = heads_that_fit(p, of_head);
    const index largest = heads * (of_head < max_rows ? of_head : max_rows);
    rows = largest > rows ? largest : rows;
    units += (of_head + max_rows - 1) / max_rows * ((p.kv_heads + heads - 1) / heads);
    const index own = AttentionPlan().splits_of(sequence.keys, p);
    splits = own > splits ? own : splits;
  }
  std::size_t bytes = static_cast<std::size_t>(parallel.width) * tile_scratch_bytes(p, rows);
  if (parallel.width > 1 && splits > 1 && units < tasks_a_thread * parallel.width) bytes += Partials::bytes(p, splits);
  return bytes;
}

// sequences(b) describes sequence b.
template <class Level, class Source, class Sequences>
void attention(const AttentionProblem& p, const Sequences& sequences, const Parallel& parallel, Workspace workspace) {
  const AttentionPlan plan = attention_plan(p, sequences, parallel.width);
  const index tasks = plan.units * plan.runs;
  if (tasks == 0) return;
  const index workers = tasks < parallel.width ? tasks : parallel.width;
  const index bytes = static_cast<index>(tile_scratch_bytes(p, plan.rows));
  WorkspaceCutter cutter(workspace);
  std::byte* const scratch = cutter.take<std::byte>(workers * bytes);
  const Partials partials(p, plan.runs > 1 ? plan.splits : 0, cutter);
  const auto for_splits = [&](index begin, index end, KeyRange visible, auto&& each) {
    for (index s = begin; s < end; ++s) {
      const index first = s * p.split, bound = first + p.split;
      const KeyRange keys{visible.begin > first ? visible.begin : first, visible.end < bound ? visible.end : bound};
      if (!keys.empty()) each(s, keys);
    }
  };
  std::atomic<index> next{0};
  parallel(workers, [&](index worker) {
    TileScratch t(p, plan.rows, scratch + worker * bytes);
    UnitCursor cursor(p, sequences, plan);
    for (index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
      const AttentionUnit unit = cursor.at(i / plan.runs);
      const AttentionSequence sequence = sequences(unit.b);
      const index run = i % plan.runs, begin = plan.splits * run / plan.runs, end = plan.splits * (run + 1) / plan.runs;
      const KeyRange visible = unit.keys(p, sequence);
      const index last = visible.end < end * p.split ? visible.end : end * p.split;
      load_queries<Level>(p, sequence, unit, t);
      if (plan.runs == 1) clear_total<Level>(p, t, unit.all());
      DecodeSplit<Level, Source> split(p, sequence, unit, t);
      bool cold = true;
      for_splits(begin, end, visible, [&](index s, KeyRange keys) {
        if (plan.runs > 1) {
          const index row = partials.row(p, sequence, unit, s);
          t.o = partials.o + row * partials.pad;
          t.state = partials.state + row;
        }
        if (p.packs_keys)
          attend_packed<Level>(p, sequence, unit, keys, t);
        else
          split.run(keys, last, cold);
        cold = false;
        if (plan.runs == 1) merge_split<Level>(p, t.o, t.state, unit.all(), t);
      });
      if (plan.runs == 1) write_output<Level>(p, sequence, unit, t);
    }
  });
  if (plan.runs == 1) return;
  std::atomic<index> next_unit{0};
  parallel(workers < plan.units ? workers : plan.units, [&](index worker) {
    const TileScratch t(p, plan.rows, scratch + worker * bytes);
    UnitCursor cursor(p, sequences, plan);
    for (index i; (i = next_unit.fetch_add(1, std::memory_order_relaxed)) < plan.units;) {
      const AttentionUnit unit = cursor.at(i);
      const AttentionSequence sequence = sequences(unit.b);
      clear_total<Level>(p, t, unit.all());
      for_splits(0, plan.splits, unit.keys(p, sequence), [&](index s, KeyRange) {
        const index row = partials.row(p, sequence, unit, s);
        merge_split<Level>(p, partials.o + row * partials.pad, partials.state + row, unit.all(), t);
      });
      write_output<Level>(p, sequence, unit, t);
    }
  });
}

}  // namespace inlay::cpu
