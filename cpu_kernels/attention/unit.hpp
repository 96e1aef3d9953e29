// A unit of work: rows (query, head of the group) of one or more kv heads of one sequence.
#pragma once

#include "cpu_kernels/attention/scores.hpp"

namespace inlay::cpu {

struct AttentionUnit {
  index b, kv_head, kv_heads, first, rows;  // rows first .. first + rows of each kv head

  INLAY_INLINE index all() const { return kv_heads * rows; }
  // Row r of the unit: head after head.
  INLAY_INLINE AttentionRow row(const AttentionProblem& p, const AttentionSequence& sequence, index r) const {
    return attention_row(p, sequence, kv_head + r / rows, first + r % rows);
  }
};

// How many kv heads a unit takes: as many as have their rows in scratch together, but few enough that
// every thread gets a few tasks. Heads do not mix, so the cut leaves no trace in the result.
INLAY_INLINE index heads_of_unit(const AttentionProblem& p, index rows, index tasks_a_head, index width) {
  if (p.packs_keys || rows > max_rows / 2) return 1;
  constexpr index tasks_a_thread = 2;
  const index fit = max_rows / (rows > 0 ? rows : 1);
  const index wanted =
      width == 1 ? 1 : (tasks_a_thread * width + tasks_a_head - 1) / (tasks_a_head > 0 ? tasks_a_head : 1);
  const index share = p.kv_heads / (wanted < p.kv_heads ? wanted : p.kv_heads);
  return share < fit ? share : fit;
}

// Walks the units of a batch in order: sequence by sequence, the last queries (they see most) first.
template <class Sequences> class UnitCursor {
 public:
  UnitCursor(const AttentionProblem& p, const Sequences& sequences, index kv_heads)
      : p_(p), sequences_(sequences), kv_heads_(kv_heads) {}
  // `unit` never falls from call to call.
  INLAY_INLINE AttentionUnit at(index unit) {
    const index cuts = (p_.kv_heads + kv_heads_ - 1) / kv_heads_;
    for (;;) {
      const index rows = sequences_(b_).queries * p_.group(), tiles = (rows + max_rows - 1) / max_rows;
      if (unit < base_ + tiles * cuts) {
        const index first = (tiles - 1 - (unit - base_) / cuts) * max_rows, head = (unit - base_) % cuts * kv_heads_;
        return {b_, head, p_.kv_heads - head < kv_heads_ ? p_.kv_heads - head : kv_heads_, first,
                rows - first < max_rows ? rows - first : max_rows};
      }
      base_ += tiles * cuts;
      ++b_;
    }
  }

 private:
  const AttentionProblem& p_;
  const Sequences& sequences_;
  index kv_heads_, b_ = 0, base_ = 0;
};

}  // namespace inlay::cpu
