// q, in f32 or bf16, as f16: each row divided by its largest, f = max |q|,
//
//   high = f16(q / f * below_one)    low = f16(q / f - high)    factor = f * scale
//
// 2^-21 of the largest is left out, and nothing overflows, whatever the size of q. What is f16 already is laid out for
// its units, no more.
#pragma once

#include "npu_kernels/attention/attend_matrix.hpp"

namespace inlay::npu {

// All vector units share the rows; returns when all rows are there.
void make_query_halves(Core& core, const AttentionProblem& problem, const MatrixPlan& plan);

}  // namespace inlay::npu
