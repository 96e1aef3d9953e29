// Attention in the four stages of Ascend's IncreFlashAttention, for K and V in f16:
//
//   mm1    scores   = Q K^T                                            load, feed, matrix, drain
//   vec1   weights  = exp(rules(scores) - max), online                 vector
//   mm2    products = weights V                                        load, feed, matrix, drain
//   vec2   sum      = sum * exp(max_before - max) + products           vector; divided at the end
//
// The rows (query, head of the group) of a unit are the rows of one product. Stages work on different tiles of keys:
//
//   step i:   mm1, vec1 (i-1)    mm2, vec2 (i-3)    q of i and i+1;   K and V as far ahead as there is room for them
//
// Tiles of all units of a core are one sequence: the pipeline does not run empty between two units. Long units come
// first, so that the last tile, behind which nothing is left to overlap with, is a short one.
//
// Products are made for some rows of a unit at a time, and stop where the keys of the last of them end: under a causal
// mask few pairs are multiplied that nobody sees. The vector units take their rows in blocks.
//
// Exact to f32's tolerances: what f16 cannot hold goes in two halves, one product each into the same accumulator,
//
//   q / max |q| = high + low       p 2^14 = high + low          2^-21 of the row's largest, and of p
//
// Where a product of twice the rows takes hardly longer (an array that brings in V for a few of them), both halves of p
// are rows of one product, and the vector unit adds the two sums.
//
// both of one sign, so that an infinite K or V stays what it is: high is rounded from just below the number, by as much
// as the rounding may raise it. q in f16 is one piece as it is. Where left is the vector unit's memory halves are views
// of it; else they pass through global memory, as scores and products do where no path leads from the accumulator to
// the vector unit.
//
// `activations f16`: one piece of each. Where rows see many keys (a prompt) and nothing is added to scores, these are
// f16 too, scale q k as it leaves the accumulator, and so is what becomes of them up to the weights: half the bytes
// between the units, and twice the lanes.
#pragma once

#include "npu_kernels/attention/cache_blocks.hpp"
#include "npu_kernels/attention/parts.hpp"
#include "npu_kernels/attention/problem.hpp"

namespace inlay::npu {

inline constexpr float below_one = 1 - 0x1p-11f;

struct MatrixTiles {
  index rows = 0;           // of a unit, even
  index most = 0;           // of them that a vector unit has
  index block = 0;          // .. that it takes at a time
  index graded = 0;         // .. for which products stop where the keys of the last of them end
  index score_rows = 0;     // of one product of mm1
  index product_rows = 0;   // of one product of mm2
  index tokens = 0;         // of a tile
  index parts = 1;          // of a tile's K and V, each on its own way into staging
  index score_columns = 0;  // of one product of mm1
  index value_columns = 0;  // of one product of mm2
  index depth = 0;          // of one step of a product
  index sums = 2;           // accumulators
  index products = 2;       // blocks of them on their way to a vector unit
  index results = 2;        // .. and of results on their way out
  bool stacked = false;     // high and low weights are rows of one product of mm2
  index part() const { return tokens / parts; }
  index sum_rows() const { return (stacked ? 2 : 1) * product_rows; }
};

struct MatrixPlan {
  MatrixTiles tiles;
  index q_pieces = 1, weight_pieces = 2;
  index most_rows = 32;                    // of a unit
  bool q_as_it_is = false;                 // else the vector units make its pieces
  bool narrow = false;                     // scores in f16
  DType product_type = DType::f32;         // f16 where scores are, and products go through global memory
  float drain_scale = 1;                   // of scores on their way out of the accumulator
  float score_scale = 1;                   // .. what of it is left for q or the vector unit
  float weight_scale = 1;                  // .. or in f16 where weights are made
  bool packed = false;                     // weights leave the vector unit as blocks of the matrix unit's
  bool makes_blocks = false;               // .. and K and V pass it, which makes blocks of rows
  bool turns_values = false;               // .. or V alone, which it turns
  std::vector<std::vector<index>> shares;  // units of each core
  // Workspace: what passes between the units; q in pieces.
  Tensor q, scores, weights, products;
  CacheBlocks cache;
  Tensor not_numbers;           // flags of vector units, where sums may be none (finite_sums.hpp)
  bool flags_of_units = false;  // .. of each one's part of each unit
};

// Does the program serve this problem on this device?
bool fits_matrix(const Device& device, const AttentionProblem& problem);
// Do the vector units make K's and V's blocks? Where a decode step's loads, which bound it, would wait for the pass.
bool vector_makes_blocks(const Device& device, const AttentionProblem& problem);
// .. or turn a prompt's V? Where the matrix unit, for which several products read each part, would do it in each.
bool vector_turns_values(const Device& device, const AttentionProblem& problem);
// No tokens: they do not fit. Of by_chunks' problems they do not depend on lengths.
MatrixTiles matrix_tiles(const Device& device, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                         const MatrixPlan& plan);
void add_workspace(GlobalMemory& memory, const AttentionProblem& problem, MatrixPlan& plan);

// Each query of a prompt for itself, once more (finite_sums.hpp).
struct QueriesAlone {
  std::vector<WorkUnit> units;
  MatrixPlan plan;  // whose flags are of units
};

// False: sums were no numbers, and queries have been taken alone.
bool attend_on_matrix(Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                      const PartsWorkspace& space, const MatrixPlan& plan, const QueriesAlone* alone = nullptr);

}  // namespace inlay::npu
