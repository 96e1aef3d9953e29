// An operator at its shapes, as the device would run it: what the timing model and the checker read.
#pragma once

#include "tile_machine/device/problem.hpp"
#include "tile_machine/tape/tape.hpp"

namespace inlay::npu {

struct Plan {
  Tape tape;  // made without data
  Problem problem;
};

}  // namespace inlay::npu
