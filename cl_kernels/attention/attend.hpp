// The launch of attention/attend.cl or attention/prefill.cl. A launcher of an operator takes its problem
// (core/attention_problem.hpp), enqueues the kernel of its own that makes sequences of lengths and tables, and hands
// over.
#pragma once

#include <algorithm>

#include <inlay/core/attention_problem.hpp>

#include "cl_kernels/attention/problem.clh"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

// The problem of a call, and how its keys are cut.
struct AttentionCall : AttentionProblem<Cl> {
  index split = 0;  // keys of a part
  index parts = 1;  // of the longest keys

  // Rows (query, head of the group) of a kv head: of a sequence, or of all where queries are ragged.
  index rows() const { return q.extents[1] * group(); }
  bool ragged() const { return q_indptr.present(); }
};

// Keys of a part where the contract leaves that to the backend.
inline constexpr index prompt_split = 2048, decode_split = 1024;

inline AttentionCall attention_call(const AttentionProblem<Cl>& problem, index split) {
  AttentionCall call{problem};
  call.split = call.partition > 0 ? call.partition : split;
  call.parts = std::max<index>(1, groups_of(call.max_kv_len, call.split));
  return call;
}

// Scratch: the sequences of a batch and, where keys are cut into several parts, the results of each part or, one part
// after the other in the per-group shape, of those so far.
std::size_t attention_scratch(const Cl& cl, const AttentionCall& call);
struct AttentionScratch {
  BufferArg sequences, partial, state;
  AttentionScratch(const Cl& cl, const AttentionCall& call, const SpaceWorkspace<Cl>& workspace);
};

// Enqueues attend or prefill and, behind several parts, merge, for the sequences first .. first + batch, which lie in
// scratch already. Of a list of K and V they are one.
Status attend(Cl& cl, const AttentionCall& call, const AttentionScratch& scratch, index first, index batch);

// Lanes of the kernels that make sequences.
inline constexpr int sequence_lanes = 64;

}  // namespace inlay::cl
