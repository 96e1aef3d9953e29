// An operator at its shapes, as the device would run it: what the timing model and the checker read.
#pragma once

#include "tile_machine/device/roofline_work.hpp"
#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

struct Plan {
  EventLog log;  // made without data
  RooflineWork problem;
};

}  // namespace inlay::npu
