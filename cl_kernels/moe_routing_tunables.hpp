// How moe_routing is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

// A lane has a block of 8 of 256 experts.
inline constexpr ClParameter moe_routing_lanes{"moe_routing",      "lanes", share_a_row, one_item,
                                               {32, {16, 32, 64}}, false};
inline constexpr ClParameter moe_routing_width{"moe_routing", "width", vector_elements, item_width, group_width, false};

}  // namespace inlay::cl
