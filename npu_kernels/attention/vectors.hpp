// Attention without the matrix unit: each vector unit takes units of its own, with all options of all operators.
//
//   scores[r, t]  = sum_d q[r, d] k[t, d]                     multiply by the row q[r], sum each row
//   scores        = softcap(scores + bias), -inf where hidden  softmax.hpp
//   weights       = exp(scores - max), online                  softmax.hpp
//   sum[r, d]     = alpha sum[r, d] + sum_t weight[r, t] v[t, d]   multiply by the column, sum each column
//
//   load_vector   K(0), V(0)   K(1), V(1) ..
//   vector                     scores(0), sums(0)   scores(1), sums(1) ..
//   store                                                                 out, lse
//
// Everything is f32. A hidden key's V is taken out by selection: 0 times what lies there need not be 0. Sums over keys
// go key after key, and tiles start at fixed keys, so that what a row does not see changes none of its bits.
#pragma once

#include "npu_kernels/attention/finish.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

struct VectorTiles {
  index rows, tokens;
};
// As the vector unit's memory holds them; of the dims, types and options, not of lengths.
VectorTiles vector_tiles(const Device& device, const AttentionCall& problem);

void attend_on_vectors(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                       const PartsWorkspace& space, VectorTiles tiles);

}  // namespace inlay::npu
