// How rope is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter rope_lanes{"rope", "lanes", "work-items of a group", one_item, {64, {32, 64, 128, 256}},
                                        true};

}  // namespace inlay::cl
