// The launch of attention/attend.cl or attention/prefill.cl. A launcher of an operator takes its problem
// (core/attention_problem.hpp), enqueues the kernel of its own that makes sequences of lengths and tables, and hands
// over.
#pragma once

#include <algorithm>

#include <inlay/core/attention_problem.hpp>

#include "cl_kernels/attention/attend_tunables.hpp"
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

inline AttentionCall attention_call(const AttentionProblem<Cl>& problem, index split) {
  AttentionCall call{problem};
  call.split = split;
  call.parts = std::max<index>(1, groups_of(call.max_kv_len, split));
  return call;
}
// Of chunks of prompts, whose rows have the same bits in any.
inline AttentionCall prompt_call(const AttentionProblem<Cl>& problem) { return attention_call(problem, 2048); }
// Decoding's few rows go side by side by their parts alone: a contract's are cut further where a device has units for
// them. On an H200 one sequence of 4096 keys takes 89 us in parts of 256 and 140 in parts of 512; in parts of 128 it
// takes 70, and eight sequences 149 instead of 130.
inline AttentionCall decode_call(const Cl& cl, const AttentionProblem<Cl>& problem) {
  const index most = cl.runtime().tuned(attention_part);
  return attention_call(problem, problem.partition > 0 ? std::min(problem.partition, most) : most);
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
