// One kernel for all attention over keys in rows: FlashAttention-2's loop order, a task for each unit (a
// tile of rows of a kv head, or the few rows of several), in it a loop over tiles of keys.
//
//   for each split of the keys                   a fixed number of keys, whatever the threads (attention/split.hpp)
//     for each tile of key_tile keys that some row of the unit sees
//       S = q K^T         few rows: straight from the cache; more: over keys packed as columns
//       S = mask(softcap(S + bias))
//       o, m, l           online softmax; P V with deferred division
//     merge into (o, m, l) of the whole row, in the order of the splits
//   sink, division, rounding
//
// The rows of a tile are (query, head of the group) pairs: all heads that share a kv head share its
// tiles. Where units are few, runs of splits go in parallel, each split leaves (o, m, l) in a place of its own, and
// they are merged behind; the arithmetic is the same, so the bits are.
#pragma once

#include <inlay/core/parallel.hpp>
#include <inlay/core/workspace.hpp>

#include "cpu_kernels/attention/int8.hpp"
#include "cpu_kernels/attention/output.hpp"
#include "cpu_kernels/attention/pack.hpp"
#include "cpu_kernels/attention/split.hpp"
#include "cpu_kernels/attention/unit.hpp"
#include "cpu_kernels/support/jobs.hpp"

namespace inlay::cpu {

// q rows of one task, widened, scaled, padded with zeros.
template <class Level>
void load_queries(const AttentionCall& p, const HostSequence& sequence, const AttentionUnit& unit,
                  const TileScratch& t) {
  using F = simd::Floats<Level>;
  const index pad = padded(p.k.dim);
  const F scale(p.scale * p.k.factor);
  with_float(p.q.dtype, [&]<class T>(Type<T>) {
    const auto row = [&](index r) INLAY_INLINE_LAMBDA {
      const AttentionRow at = unit.row(p, sequence, r);
      return p.q.template as<T>() + offset(p.q, sequence.q_outer, sequence.q_row + at.query, at.head, 0);
    };
    constexpr index ahead = 8;
    for (index r = 0; r < unit.all(); ++r) {
      if (r + ahead < unit.all()) simd::prefetch_lines(row(r + ahead), p.k.dim * byte_size(p.q.dtype, 1));
      widen_row<Level>(row(r), p.k.dim, t.q + r * pad, [=](F x) INLAY_INLINE_LAMBDA { return x * scale; });
    }
  });
  if (!p.chunk_invariant && kv_scales(p.k, sequence) == KvScales::shared)
    fold_key_scales<Level>(p, sequence, unit, t.q, t.shift);
  if constexpr (reaches<Level>(QkSums::over_lanes, QkRoute::x4))
    if (p.x4)
      for (index h = 0; h < unit.kv_heads; ++h)
        interleave_x4<Level>({t.q + h * unit.rows * pad, pad}, unit.rows, pad, t.x4 + 4 * h * unit.rows * pad);
}

// `split`: keys of a part where the contract leaves that to the backend.
template <class Level, class Op> AttentionCall attention_call(const Op& op, index split) {
  AttentionCall call{attention_problem(op), split};
  if (call.partition > 0) call.split = call.partition;
  call.x4 = qk_route<Level>(call.k, qk_sums(call), call.rows_of_head()) == QkRoute::x4;
  return call;
}

inline constexpr index tasks_a_thread = 4;  // with fewer, the last one leaves threads waiting

template <class Level> AttentionPlan attention_plan(const AttentionCall& p, const Parallel& parallel) {
  AttentionPlan plan;
  for (index b = 0; b < p.batch(); ++b) {
    const AttentionSequence sequence = attention_sequence(p, b);
    const double cached = static_cast<double>(sequence.keys * p.kv_heads() * (p.k.dim + p.v.dim));
    plan.work.bytes += cached * sizeof(f16);
    plan.work.operations += 2 * static_cast<double>(sequence.queries * p.group()) * cached;
    const index splits = plan.splits_of(sequence.keys, p);
    plan.tasks_a_head += splits;
    plan.splits = splits > plan.splits ? splits : plan.splits;
  }
  const index width = plan.width = parallel.alone(plan.work) ? 1 : parallel.width;
  for (index b = 0; b < p.batch(); ++b) {
    const index rows = attention_sequence(p, b).queries * p.group(), heads = plan.heads_of_unit(p, rows);
    const index largest = heads * min(rows, max_rows);
    plan.rows = largest > plan.rows ? largest : plan.rows;
    plan.units += (rows + max_rows - 1) / max_rows * ((p.kv_heads() + heads - 1) / heads);
  }
  // The fewest runs that keep all threads busy: the splits of a run hand each other a chunk that is on its way.
  const auto busy = [&](index tasks) {
    return tasks >= tasks_a_thread * width || (2 * tasks >= tasks_a_thread * width && tasks % width == 0);
  };
  while (width > 1 && plan.units > 0 && plan.runs < plan.splits && !busy(plan.units * plan.runs)) ++plan.runs;
  return plan;
}

// Enough for any lengths up to those that sequence_of(b) gives: a captured step may see others.
template <class SequenceOf>
std::size_t attention_scratch_bytes(const AttentionCall& p, const Parallel& parallel, SequenceOf&& sequence_of) {
  index rows = 0, units = 0, splits = 0;
  for (index b = 0; b < p.batch(); ++b) {
    const AttentionSequence sequence = sequence_of(b);
    const index of_head = sequence.queries * p.group(), heads = heads_that_fit(p, of_head);
    const index largest = heads * min(of_head, max_rows);
    rows = largest > rows ? largest : rows;
    units += (of_head + max_rows - 1) / max_rows * ((p.kv_heads() + heads - 1) / heads);
    const index own = AttentionPlan().splits_of(sequence.keys, p);
    splits = own > splits ? own : splits;
  }
  std::size_t bytes = static_cast<std::size_t>(parallel.width) * tile_scratch_bytes(p, rows);
  if (parallel.width > 1 && splits > 1 && units < tasks_a_thread * parallel.width) bytes += Partials::bytes(p, splits);
  return bytes;
}

template <class Level, class Source>
void attention(const AttentionCall& p, const Parallel& parallel, Workspace workspace) {
  const AttentionPlan plan = attention_plan<Level>(p, parallel);
  const index tasks = plan.units * plan.runs;
  if (tasks == 0) return;
  const index workers = min(tasks, plan.width);
  const index bytes = static_cast<index>(tile_scratch_bytes(p, plan.rows));
  WorkspaceCutter cutter(workspace);
  std::byte* const scratch = cutter.take<std::byte>(workers * bytes);
  const Partials partials(p, plan.runs > 1 ? plan.splits : 0, cutter);
  const auto for_splits = [&](index begin, index end, KeyRange visible, auto&& each) {
    for (index s = begin; s < end; ++s) {
      const index first = s * p.split, bound = first + p.split;
      const KeyRange keys{visible.begin > first ? visible.begin : first, min(visible.end, bound)};
      if (!keys.empty()) each(s, keys);
    }
  };
  Jobs jobs(tasks);
  parallel(workers, plan.work, [&](index worker) {
    TileScratch t(p, plan.rows, scratch + worker * bytes);
    const bool whole = plan.splits == 1;  // a split has all keys: there is nothing to merge
    if (whole) t.o = t.total, t.state = t.total_state;
    UnitCursor cursor(p, plan);
    jobs.each([&](index i) INLAY_INLINE_LAMBDA {
      const AttentionUnit unit = cursor.at(i / plan.runs);
      const HostSequence sequence = host_sequence<Level>(p, unit.b);
      const index run = i % plan.runs, begin = plan.splits * run / plan.runs, end = plan.splits * (run + 1) / plan.runs;
      const KeyRange visible = unit.keys(p, sequence);
      const index last = min(visible.end, end * p.split);
      if constexpr (Source::sums == QkSums::pairs)
        load_query_pairs<Level>(p, sequence, unit, t);
      else
        load_queries<Level>(p, sequence, unit, t);
      if (plan.runs == 1 && (!whole || visible.empty())) clear_total<Level>(p, t, unit.all());
      AttentionSplit<Level, Source> split(p, sequence, unit, t);
      bool cold = true;
      for_splits(begin, end, visible, [&](index s, KeyRange keys) {
        if (plan.runs > 1) {
          const index row = partials.row(p, sequence, unit, s);
          t.o = partials.o + row * partials.pad;
          t.state = partials.state + row;
        }
        split.run(keys, last, cold);
        cold = false;
        if (plan.runs == 1 && !whole) merge_split<Level>(p, t.o, t.state, unit.all(), t);
      });
      if (plan.runs == 1) write_output<Level>(p, sequence, unit, t);
    });
  });
  if (plan.runs == 1) return;
  Jobs merges(plan.units);
  const Work merging{.bytes = 4 * static_cast<double>(plan.splits * p.q.size())};
  parallel(min(workers, plan.units), merging, [&](index worker) {
    const TileScratch t(p, plan.rows, scratch + worker * bytes);
    UnitCursor cursor(p, plan);
    merges.each([&](index i) INLAY_INLINE_LAMBDA {
      const AttentionUnit unit = cursor.at(i);
      const HostSequence sequence = host_sequence<Level>(p, unit.b);
      clear_total<Level>(p, t, unit.all());
      for_splits(0, plan.splits, unit.keys(p, sequence), [&](index s, KeyRange) {
        const index row = partials.row(p, sequence, unit, s);
        merge_split<Level>(p, partials.o + row * partials.pad, partials.state + row, unit.all(), t);
      });
      write_output<Level>(p, sequence, unit, t);
    });
  });
}

}  // namespace inlay::cpu
