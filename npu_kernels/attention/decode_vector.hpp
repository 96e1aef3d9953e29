// Decode attention without the matrix unit: each vector unit takes items of its own.
//
//   scores[g, t] = sum_d q[g, d] k[t, d]      multiply by the row q[g], sum each row
//   sum[g, d]    = alpha sum[g, d] + sum_t p[g, t] v[t, d]      multiply by the column p[g], fold the rows in halves
//
// Nothing goes through global memory but K, V, q and the result, and nobody waits for another unit; but each row
// of the group is another pass over the tile. It pays for few rows: with one, Ascend's IncreFlashAttention does so.
#pragma once

#include "npu_kernels/attention/decode_attention.hpp"

namespace inlay::npu {

void decode_on_vectors(Core& core, const DecodeOperands& op);

}  // namespace inlay::npu
