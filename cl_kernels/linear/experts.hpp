// Of a mixture of experts, what a launcher has to know: cl_kernels/linear/experts.clh.
#pragma once

#include <algorithm>

#include <inlay/core/experts.hpp>

#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

// Rows that a weight is multiplied with: of an expert, if they all had as many.
template <class Op> index rows_of_one(const Op& op) { return groups_of(op.x.extents[0], op.experts()); }

// The most chunks of `chunk` rows that experts can have; of one linear as many as there are.
template <class Op> index chunks_of(const Op& op, index chunk) {
  const index rows = op.x.extents[0];
  if (!op.expert_ends.present()) return groups_of(rows, chunk);
  const index alone = std::min(rows, op.experts());  // experts with a row
  return alone + (rows - alone) / chunk;
}

template <class Op> FaultSlot expert_fault_slot(Cl& cl, const Op& op) {
  if (!op.expert_ends.present()) return 0;
  return cl.runtime().fault_slot([rows = op.x.extents[0]](std::int64_t at, std::int64_t value) {
    return offence<Op>(wrong_expert_end(at, value, rows));
  });
}

}  // namespace inlay::cl
