// How linear is cut: what `inlay tune` may change.
#pragma once

#include "cl_kernels/tuning/choices.hpp"

namespace inlay::cl {

inline constexpr ClParameter linear_lanes{
    "linear", "lanes", "work-items that share a panel by few rows", one_item, {64, {32, 64, 128}}, true};

}  // namespace inlay::cl
