// out = sum_s exp(max_s - max) sums_s / sum_s exp(max_s - max) total_s, over the splits s of each head.
#pragma once

#include "npu_kernels/attention/decode_attention.hpp"

namespace inlay::npu {

// After all cores have written what decode_attention leaves in op.sums, op.maxima and op.totals: waits for them.
void merge_splits(Core& core, const DecodeOperands& op);

}  // namespace inlay::npu
