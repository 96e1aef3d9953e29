// Attention in the four stages of Ascend's IncreFlashAttention, for K and V in f16:
//
//   mm1    scores   = Q K^T                                            load, feed, matrix, drain
//   vec1   weights  = exp(rules(scores) - max), online                 vector
//   mm2    products = weights V                                        load, feed, matrix, drain
//   vec2   sum      = sum * exp(max_before - max) + products           vector; divided at the end
//
// The rows (query, head of the group) of a unit are the rows of one product. Stages work on different tiles of keys:
//
//   step i:   load K(i), V(i-2)    mm1, vec1 (i-1)    mm2, vec2 (i-3)
//
// Tiles of all units of a core are one sequence: the pipeline does not run empty between two units.
//
// Exact to f32's tolerances: what f16 cannot hold goes in two halves, one product each into the same accumulator,
//
//   q / max |q| = high + low       p 2^14 = high + low          2^-21 of the row's largest, and of p
//
// both of one sign, so that an infinite K or V stays what it is: high is rounded from just below the number, by as much
// as the rounding may raise it. q in f16 is one piece as it is. Where left is the vector unit's memory halves are views
// of it; else they pass through global memory, as scores and products do where no path leads from the accumulator to
// the vector unit.
#pragma once

#include "npu_kernels/attention/parts.hpp"
#include "npu_kernels/attention/problem.hpp"

namespace inlay::npu {

inline constexpr float below_one = 1 - 0x1p-11f;

struct MatrixTiles {
  index rows = 0;           // of a unit, even
  index most = 0;           // of them that a vector unit has
  index tokens = 0;         // of a tile
  index score_columns = 0;  // of one product of mm1
  index value_columns = 0;  // of one product of mm2
  index depth = 0;          // of one product
};

struct MatrixPlan {
  MatrixTiles tiles;
  index q_pieces = 1, weight_pieces = 2;
  std::uint32_t vectors = 0;  // units of a core that share the rows; 0: all
  index most_rows = 32;       // of a unit
  bool q_as_it_is = false;    // else from the workspace: rows of a unit one after another, in pieces
  // Workspace: q [piece, outer, head of the cache, row, head of the group], and what a row of halves is multiplied
  // with; what passes between the units.
  NdTensor factors;
  Tensor q, scores, weights, products;
};

// Does the program serve this problem on this device?
bool fits_matrix(const Device& device, const AttentionProblem& problem);
// Vector units of a core that share its rows: as many as the plan says that the device has.
index sharing_vectors(const Device& device, const MatrixPlan& plan);
// No tokens: they do not fit. Of by_chunks' problems they do not depend on lengths.
MatrixTiles matrix_tiles(const Device& device, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                         const MatrixPlan& plan);
void add_workspace(GlobalMemory& memory, const AttentionProblem& problem, MatrixPlan& plan);

void attend_on_matrix(Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                      const PartsWorkspace& space, const MatrixPlan& plan);

}  // namespace inlay::npu
