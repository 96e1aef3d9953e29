// Attention in the four stages of Ascend's IncreFlashAttention, for K and V in f16:
//
//   scores    Q K^T                                                load, feed, matrix, drain
//   softmax   weights = exp(rules(scores) - max), online           vector
//   products  weights V                                            load, feed, matrix, drain
//   finish    sum = sum * exp(max_before - max) + products         vector; divided at the end
//
// The rows (query, head of the group) of a unit are the rows of one product. Stages work on different tiles of keys:
//
//   step i:   scores, softmax (i-1)    products, finish (i-3)    q of i and i+1;   K and V as far ahead as there is
//   room
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
// both of one sign, so that an infinite K or V stays what it is: high is rounded from just below the number, by as much
// as the rounding may raise it. q in f16 is one piece as it is. Where a product of twice the rows takes hardly longer
// (an array that brings in V for a few of them), both halves of p are rows of one product, and the vector unit adds the
// two sums.
//
// `activations f16`: one piece of each. Where rows see many keys (a prompt) and nothing is added to scores, these are
// f16 too, scale q k as it leaves the accumulator, and so is what becomes of them up to the weights: half the bytes
// between the units, and twice the lanes.
//
// Where rows see different keys, products give a hidden key the weight 0, and 0 times an infinity of V is NaN. So it
// shows in the sums: as long as these are numbers no hidden key has had a part in them. If one is not, or a visible key
// made it so, the whole is done once more, in a way in which no row depends on its neighbours:
//
//   a prompt   by the matrix unit, each query for itself: no key behind it is multiplied, as in a chunk of one query;
//              and where that is no number either, as rules hide keys before its last, by the vector units
//   a token    by the vector units
//
// There a hidden key's V is taken out by selection. So are scores that f16 does not hold (`activations f16`).
#pragma once

#include "npu_kernels/attention/finish.hpp"
#include "npu_kernels/attention/plan.hpp"

namespace inlay::npu {

// Each query of a prompt for itself, once more.
struct PerQueryPlan {
  std::vector<QueryTile> units;  // of one query each
  AttentionPlan plan;            // whose flags are of units
};
PerQueryPlan per_query_plan(GlobalMemory& memory, const AttentionCall& problem, const AttentionPlan& plan, index rows,
                            std::uint32_t cores);
// Those whose sums are no numbers either.
std::vector<QueryTile> nonfinite_units(Core& core, const PerQueryPlan& queries);

// False: sums were no numbers, and queries have been taken alone.
bool attend_on_matrix(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                      const PartsWorkspace& space, const AttentionPlan& plan, const PerQueryPlan* alone = nullptr);

}  // namespace inlay::npu
