// How merge_states is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

// Sixteen lanes take 128 elements at a time, a usual head_dim.
inline constexpr ClParameter merge_states_lanes{"merge_states", "lanes",           share_a_row,
                                                one_item,       {16, {8, 16, 32}}, true};
inline constexpr ClParameter merge_states_rows{"merge_states",    "rows", "rows of a group", {8, {1, 2, 4, 8, 16}},
                                               {4, {1, 2, 4, 8}}, true};

}  // namespace inlay::cl
