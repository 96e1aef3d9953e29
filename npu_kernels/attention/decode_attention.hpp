// Attention of one new token for each sequence over its cache, in the four stages of IncreFlashAttention:
//
//   mm1    scores        = Q K^T                                  load, feed, matrix, drain
//   vec1   probabilities = exp(scale * scores - max), online      vector
//   mm2    products      = probabilities V                        load, feed, matrix, drain
//   vec2   sum           = sum * exp(max_before - max) + products; divide by the total at the end
//
// The query heads that share a head of the cache are the rows of one product (M = group). The cache of a
// (sequence, head) is cut into `splits` items for the cores, an item into tiles of tokens. Stages work on
// different tiles, so that the loads never stop:
//
//   step i:   load K(i), V(i-2)    mm1, vec1 (i-1)    mm2, vec2 (i-3)
//
// Tiles of all items of a core are one sequence: the pipeline does not run empty between two items.
// Where a core has two vector units with streams of their own, vec1 and vec2 are shared by rows of the group (C1V2), or
// one of them does all (C1V1): half the work of each against waits for two and shorter transfers.
// A partial result of a split item goes through global memory; after sync_all the splits are merged.
#pragma once

#include <string_view>

#include "npu_kernels/machine/device/problem.hpp"
#include "npu_kernels/machine/run/machine.hpp"

namespace inlay::npu {

// How many vector units work for a matrix unit, or that they work alone (decode_vector.hpp). A device with one stream
// for all makes no difference between the first two.
enum class DecodePlan : std::uint8_t { c1v1, c1v2, vector };
inline constexpr DecodePlan decode_plans[] = {DecodePlan::c1v1, DecodePlan::c1v2, DecodePlan::vector};
std::string_view name(DecodePlan plan);

struct DecodeOperands {
  Tensor q, out;  // [sequence, head] rows of `dim`
  Tensor k, v;    // [sequence, head of the cache, token] rows of `dim`: a head's tokens are one run
  index sequences = 1, heads = 1, cache_heads = 1, length = 1, splits = 1;
  float scale = 1;
  DecodePlan plan = DecodePlan::c1v2;
  // Workspace, by add_workspace: partial sums, maxima and totals of the splits; what passes from the matrix unit
  // to the vector unit and back where only global memory joins them.
  Tensor sums, maxima, totals, scores, probabilities, products;

  index group() const { return heads / cache_heads; }
  index dim() const { return q.columns(); }
  index items() const { return sequences * cache_heads * splits; }
  // A single row cannot be shared.
  Launch launch() const {
    return {.vectors = plan == DecodePlan::c1v1 || (plan == DecodePlan::c1v2 && group() == 1) ? 1u : 0u};
  }
};

// Fills in the workspace of an operator whose other fields are there, for all cores of the machine.
void add_workspace(GlobalMemory& machine, DecodeOperands& op);

void decode_attention(Core& core, const DecodeOperands& op);

// The cache and q once, the result once; both products.
Problem decode_problem(const DecodeOperands& op);

}  // namespace inlay::npu
