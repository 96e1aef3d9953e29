// Tokens are chosen for by themselves (moe_routing_token.hpp); then a counting sort puts their rows behind each other:
//
//   piece 0   tokens 0 ..       counts of its experts        before: rows of the same expert in earlier pieces
//   piece 1   tokens ..         ..                           expert_ends: running sum over experts of all pieces'
//
// and a second walk over the pieces gives every row its place. Each piece knows where its rows begin, so that the order
// is by token whoever computes it.
//
// Of one token nearly all time is the choice: 256 experts are 16 registers to be scored and 8 looks at 16 maxima.
#pragma once

#include <inlay/core/workspace.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/moe_routing.hpp>

#include "cpu_kernels/moe_routing_token.hpp"
#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

INLAY_INLINE Work routing_work(const MoeRouting<Host>& op) {
  const double each = 60 * static_cast<double>(op.logits.extents[1] + 4 * op.weights.extents[1]);
  return static_cast<double>(op.logits.extents[0]) * Work{.bytes = 0, .operations = each};
}

// Every piece has counts of all experts: 64 of them are enough for any machine.
INLAY_INLINE index routing_pieces(const Parallel& parallel, const MoeRouting<Host>& op) {
  constexpr index most = 64, least_tokens = 16;
  return parallel.pieces(min(most, groups_of(op.logits.extents[0], least_tokens)), routing_work(op));
}

// Where the rows of a piece go, once the counts of all pieces are the rows before them: writes expert_ends.
template <class Level>
INLAY_INLINE void rows_before(const MoeRouting<Host>& op, std::int32_t* counts, index pieces, std::int32_t* starts) {
  const index experts = op.logits.extents[1];
  for (index e = 0; e < experts; ++e) starts[e] = 0;
  for (index p = 0; p < pieces; ++p)
    for (index e = 0; e < experts; ++e) {
      const std::int32_t count = counts[p * experts + e];
      counts[p * experts + e] = starts[e];
      starts[e] += count;
    }
  std::int32_t* const ends = op.expert_ends.as<std::int32_t>();
  std::int32_t row = 0;
  for (index e = 0; e < experts; ++e) {
    const std::int32_t of_expert = starts[e];
    starts[e] = row;
    ends[e] = row += of_expert;
  }
}

template <class Level> Status moe_routing(const Parallel& parallel, const MoeRouting<Host>& op, Workspace workspace) {
  const index tokens = op.logits.extents[0], experts = op.logits.extents[1], top_k = op.weights.extents[1];
  const index pieces = routing_pieces(parallel, op);
  WorkspaceCutter cutter(workspace);
  std::int32_t* const counts = cutter.take<std::int32_t>(pieces * experts);
  std::int32_t* const starts = cutter.take<std::int32_t>(experts);
  const auto each_piece = [&](const Work& work, auto&& body) {
    parallel(pieces, work,
             [&](index p) { body(p, counts + p * experts, tokens * p / pieces, tokens * (p + 1) / pieces); });
  };
  std::byte* const of_pieces = cutter.take<std::byte>(0);
  const auto bytes = static_cast<index>(RoutingScratch<Level>::bytes(experts, op.groups));

  each_piece(routing_work(op), [&](index p, std::int32_t* count, index begin, index end) {
    WorkspaceCutter own(Workspace(of_pieces + p * bytes, static_cast<std::size_t>(bytes)));
    const RoutingScratch<Level> scratch(own, experts, op.groups);
    for (index e = 0; e < experts; ++e) count[e] = 0;
    with_float(op.logits.dtype, [&]<class T>(Type<T>) {
      for (index t = begin; t < end; ++t) {
        route_token<Level, T>(op, t, scratch);
        const std::int32_t* const ids = row_of<std::int32_t>(op.ids, t);
        for (index j = 0; j < top_k; ++j) ++count[ids[j]];
      }
    });
  });
  rows_before<Level>(op, counts, pieces, starts);
  const Work placing = static_cast<double>(tokens * top_k) * Work{.bytes = 32, .operations = 0};
  each_piece(placing, [&](index, std::int32_t* before, index begin, index end) {
    std::int32_t* const row_tokens = op.row_tokens.as<std::int32_t>();
    for (index t = begin; t < end; ++t) {
      const std::int32_t* const ids = row_of<std::int32_t>(op.ids, t);
      std::int32_t* const rows = row_of<std::int32_t>(op.rows, t);
      for (index j = 0; j < top_k; ++j) {
        const std::int32_t row = starts[ids[j]] + before[ids[j]]++;
        rows[j] = row;
        row_tokens[row] = static_cast<std::int32_t>(t);
      }
    }
  });
  return {};
}

template <> struct Kernels<MoeRouting<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const MoeRouting<Host>& op, Workspace workspace) {
    return moe_routing<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel& parallel, const MoeRouting<Host>& op) {
    const index experts = op.logits.extents[1], pieces = routing_pieces(parallel, op);
    return WorkspaceCutter::padded<std::int32_t>(pieces * experts) + WorkspaceCutter::padded<std::int32_t>(experts) +
           static_cast<std::size_t>(pieces) * RoutingScratch<Level>::bytes(experts, op.groups);
  }
};

}  // namespace inlay::cpu
