// How moe_combine is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter moe_combine_lanes{"moe_combine", "lanes", share_a_row, one_item, row_lanes, true};
// Each element is a sum of many: pieces are shorter than those of other operators.
inline constexpr ClParameter moe_combine_piece{
    "moe_combine", "piece", piece_elements, {2048, {1024, 2048, 4096, 8192}}, {1024, {1024, 2048, 4096}}, true};

}  // namespace inlay::cl
