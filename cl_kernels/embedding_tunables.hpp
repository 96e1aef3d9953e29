// How embedding is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter embedding_lanes{"embedding", "lanes", share_a_row, one_item, row_lanes, true};

}  // namespace inlay::cl
