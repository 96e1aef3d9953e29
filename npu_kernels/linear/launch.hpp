// How many cores a layer is worth.
#pragma once

#include <algorithm>

#include "npu_kernels/backend/program.hpp"
#include "npu_kernels/linear/row_reader.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

// Each has blocks of y to multiply, or rows to prepare, and so many elements of both operands at least: a core's start,
// its rings and the meeting of all cores cost more than these take.
inline std::uint32_t cores_of_layer(const GlobalMemory& memory, index rows, index channels, index depth, index blocks) {
  constexpr index elements_of_a_core = 16384;
  const index pieces = std::max(blocks, ceil_div(rows + channels, 4 * panel_rows));
  return cores_for(std::min(pieces, ceil_div((rows + channels) * depth, elements_of_a_core)), 1, memory.cores());
}

}  // namespace inlay::npu
