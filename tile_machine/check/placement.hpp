// Where a log's work lies: what the machine sees to at each verb of a program of its own, and asks here of a log that
// somebody else's kernel left (events/log_file.hpp).
//
//   capacity    bytes behind the end of their buffer
//   alignment   a run of a core's memory that starts off its granule; an operand of the vector unit off the unit's
#pragma once

#include <vector>

#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/report.hpp"

namespace inlay::npu {

// One report for each kind and source line.
std::vector<Report> misplaced(const EventLog& log, const Device& device);

}  // namespace inlay::npu
