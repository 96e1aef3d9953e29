// What an operator hands on as it is: from global memory through the vector unit's memory and back, without the unit.
//
//   load_vector   a piece         store   the same
#pragma once

#include "tile_machine/run/core.hpp"

namespace inlay::npu::rows {

// Of three axes, equal extents.
void copy_through(Core& core, const NdTensor& to, const NdTensor& from);

}  // namespace inlay::npu::rows
