// How quantize is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter quantize_lanes{"quantize", "lanes", share_a_row, one_item, row_lanes, true};
inline constexpr ClParameter quantize_width{"quantize", "width", vector_elements, item_width, group_width, true};

}  // namespace inlay::cl
