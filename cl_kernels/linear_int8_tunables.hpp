// How linear_int8 is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter linear_int8_lanes{
    "linear_int8", "lanes", "work-items that share a panel by few rows", one_item, {128, {32, 64, 128}}, false};

}  // namespace inlay::cl
