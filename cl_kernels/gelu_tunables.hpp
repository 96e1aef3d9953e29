// How gelu is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter gelu_lanes{"gelu", "lanes", share_a_row, one_item, row_lanes, true};
inline constexpr ClParameter gelu_piece{"gelu", "piece", piece_elements, item_piece, group_piece, true};
inline constexpr ClParameter gelu_width{"gelu", "width", vector_elements, item_width, group_width, false};

}  // namespace inlay::cl
