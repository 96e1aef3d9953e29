// How linear_w4a16 is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter linear_w4a16_lanes{
    "linear_w4a16", "lanes", "work-items that share a panel by few rows", one_item, {128, {64, 128, 256}}, true};

}  // namespace inlay::cl
