// A call of the attention programs: the problem that an operator's contract became (core/attention_problem.hpp), its
// operands bound in the machine's memory, and what the host's lists say of each sequence.
//
// K and V are bound as [outer, row, head, group of dims, dim of the group]; a plain row is one group of all its dims.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/attention_problem.hpp>

#include "tile_machine/device/roofline_work.hpp"
#include "tile_machine/run/core.hpp"
#include "tile_machine/run/global_memory.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

// K or V.
struct Cached {
  std::vector<NdTensor> views;  // one, or one for each sequence
  NdTensor scale, offset;
  index dim = 0;

  DType dtype() const { return views.front().first.dtype; }
  const NdTensor& of(index sequence) const {
    return views.size() == 1 ? views.front() : views[static_cast<std::size_t>(sequence)];
  }
};

// Where rows (query, head) go, and what the last step applies to them.
struct Outputs {
  NdTensor out, lse, sinks, out_scale, out_offset;
  float factor = 1;  // of all values
};

struct BoundOperands {
  NdTensor q;
  Cached k, v;
  Outputs to;
  NdTensor block_table, bias, mask, packed_mask, alibi_slopes;
};

// What one worker does at a time: rows (query, head of the group) of a head of the cache, over some of its keys.
struct QueryTile {
  index sequence, kv_head;
  index head, heads;     // of q
  index query, queries;  // of the sequence
  index begin, end;      // keys that at least one of the rows sees
  index split;
  index rows() const { return queries * heads; }
  // Some of its rows: whole queries, or heads of the only one.
  QueryTile part(index first, index count) const;
};

struct AttentionCall : AttentionProblem<Host> {
  BoundOperands bound = {};
  std::vector<AttentionSequence> sequences = {};
  index splits = 1, split = 0;  // of the keys of a sequence, each `split` long
  bool hides = true;            // somebody may not see a key that others of its unit see

  bool quantized() const { return k.scale.present() || v.scale.present(); }
  index number_of(const AttentionSequence& s) const { return &s - sequences.data(); }
  const AttentionSequence& sequence(const QueryTile& unit) const {
    return sequences[static_cast<std::size_t>(unit.sequence)];
  }
  // What the first and the last query of a unit see.
  std::pair<KeyRange, KeyRange> ends(const QueryTile& unit) const;
  // A unit's rows of [outer, row, head, ..], as [query, head, ..].
  NdTensor rows(const NdTensor& tensor, const QueryTile& unit) const;
};

// Binds the operands; more than once, as an estimate has a memory of its own.
AttentionCall attention_call(GlobalMemory& memory, const AttentionProblem<Host>& problem);

// K or V in the memory, by the name of its views.
Cached bind_cache(GlobalMemory& memory, const std::string& name, const AttentionKv<Host>& cache);

// An axis of extent 1 serves `extent` elements.
NdTensor spread(const NdTensor& tensor, int axis, index extent);

// [head|1, n] as [query, head, n] of a unit's rows.
NdTensor of_heads(const NdTensor& list, const QueryTile& unit);

// `rows` at most in each, in the order of the sequences.
std::vector<QueryTile> units_of(const AttentionCall& problem, index rows);

// Keys of a unit that are worked on at once.
struct KeyTile {
  index first, count;
  bool last;
};
// Cut at multiples of `tokens` where bits must not depend on the other rows, else counted from the first key.
std::vector<KeyTile> key_tiles(const AttentionCall& problem, const QueryTile& unit, index tokens);

// A tile of keys of a sequence and head, and the blocks that hold it (of first / block_size on).
struct TokenRange {
  const AttentionSequence* sequence = nullptr;
  index kv_head = 0, first = 0, count = 0;
  const std::vector<index>* blocks = nullptr;
};

// Read from the table; none without one.
std::vector<index> blocks_of(Core& core, const AttentionCall& problem, const TokenRange& range);

// visit(outer, row, at, count) for each run of a range's tokens: from `at` of the range on they are the rows from `row`
// of `outer` on, or of a block. Key 0 of the sequence is row `row` of `outer`.
template <class Visit>
void for_parts(const AttentionCall& problem, const TokenRange& range, index outer, index row, Visit&& visit) {
  const index size = problem.block_size();
  if (!problem.block_table.present()) return visit(outer, row + range.first, index{0}, range.count);
  for (index at = 0, n; at < range.count; at += n) {
    const index key = range.first + at;
    n = std::min(size - key % size, range.count - at);
    visit((*range.blocks)[static_cast<std::size_t>(key / size - range.first / size)], key % size, at, n);
  }
}
// The same of K or V: visit(at, rows [token, group, dim of the group]).
template <class Visit>
void for_rows(const AttentionCall& problem, const Cached& cached, const TokenRange& range, Visit&& visit) {
  const NdTensor& view = cached.of(problem.number_of(*range.sequence));
  const AttentionSequence& s = *range.sequence;
  for_parts(problem, range, s.outer, s.row, [&](index outer, index row, index at, index count) {
    visit(at, view.at(0, outer).slice(0, row, count).at(1, range.kv_head));
  });
}

// What must be read and written once, and both products.
RooflineWork bounds_of(const AttentionCall& problem);

}  // namespace inlay::npu
