// Extents in whole granules.
#pragma once

#include <algorithm>

#include "inlay/core/dtype.hpp"

namespace inlay::npu {

constexpr index ceil_div(index value, index by) { return (value + by - 1) / by; }
constexpr index round_up(index value, index granule) { return ceil_div(value, granule) * granule; }
// Rounded down, but at least one granule.
constexpr index round_down(index value, index granule) { return std::max(granule, value / granule * granule); }

}  // namespace inlay::npu
