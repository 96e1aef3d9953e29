// A unit of work: rows (query, head of the group) of one or more kv heads of one sequence.
#pragma once

#include "cpu_kernels/attention/scores.hpp"

namespace inlay::cpu {

struct AttentionUnit {
  index b, kv_head, kv_heads, first, rows;  // rows first .. first + rows of each kv head

  INLAY_INLINE index all() const { return kv_heads * rows; }
  // Row r of the unit: head after head.
  INLAY_INLINE AttentionRow row(const AttentionCall& p, const HostSequence& sequence, index r) const {
    return attention_row(p, sequence, kv_head + r / rows, first + r % rows);
  }
  // What some row of it sees: ranges grow with the query, so the first row's begin and the last one's end bound all.
  INLAY_INLINE KeyRange keys(const AttentionCall& p, const HostSequence& sequence) const {
    return {row(p, sequence, 0).keys.begin, row(p, sequence, rows - 1).keys.end};
  }
};

// How many kv heads have their rows in scratch together.
INLAY_INLINE index heads_that_fit(const AttentionCall& p, index rows) {
  if (rows > shared_unit_rows) return 1;
  const index fit = max_rows / (rows > 0 ? rows : 1);
  return min(fit, p.kv_heads());
}

// How a call is cut into tasks. A unit takes as many kv heads as fit, but few enough that every thread gets a few
// tasks. Where units are few, their splits are dealt out in runs. Neither heads nor splits mix: the cuts leave no
// trace in the result.
struct AttentionPlan {
  index width = 1, tasks_a_head = 0;
  index units = 0, rows = 0;  // rows: of the largest unit
  index splits = 1, runs = 1;
  Work work;  // of the whole call, as if every query saw every key

  INLAY_INLINE index splits_of(index keys, const AttentionCall& p) const { return (keys + p.split - 1) / p.split; }
  INLAY_INLINE index heads_of_unit(const AttentionCall& p, index rows_a_head) const {
    constexpr index tasks_a_thread = 2;
    const index fit = heads_that_fit(p, rows_a_head);
    if (width == 1 || fit == 1) return fit;
    const index wanted = (tasks_a_thread * width + tasks_a_head - 1) / (tasks_a_head > 0 ? tasks_a_head : 1);
    const index share = p.kv_heads() / min(wanted, p.kv_heads());
    return min(share, fit);
  }
};

// Walks the units of a batch in order: sequence by sequence, the last queries (they see most) first.
class UnitCursor {
 public:
  INLAY_INLINE UnitCursor(const AttentionCall& p, const AttentionPlan& plan) : p_(p), plan_(plan) {}
  // `unit` never falls from call to call.
  INLAY_INLINE AttentionUnit at(index unit) {
    for (;;) {
      const index rows = attention_sequence(p_, b_).queries * p_.group(), tiles = (rows + max_rows - 1) / max_rows;
      const index heads = plan_.heads_of_unit(p_, rows), cuts = (p_.kv_heads() + heads - 1) / heads;
      if (unit < base_ + tiles * cuts) {
        const index first = (tiles - 1 - (unit - base_) / cuts) * max_rows, head = (unit - base_) % cuts * heads;
        return {b_, head, min(p_.kv_heads() - head, heads), first, min(rows - first, max_rows)};
      }
      base_ += tiles * cuts;
      ++b_;
    }
  }

 private:
  const AttentionCall& p_;
  const AttentionPlan& plan_;
  index b_ = 0, base_ = 0;
};

}  // namespace inlay::cpu
