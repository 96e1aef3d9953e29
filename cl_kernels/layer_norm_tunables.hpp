// How layer_norm is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter layer_norm_lanes{"layer_norm", "lanes", share_a_row, one_item, row_lanes, false};
inline constexpr ClParameter layer_norm_width{"layer_norm", "width", vector_elements, item_width, group_width, false};

}  // namespace inlay::cl
