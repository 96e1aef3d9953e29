// An order in which a log's entries can run, and who waits for whom.
//
// Each stream and its queues are played by the rules of log.hpp, without time: an entry runs as
// soon as its predecessor in the queue has run and what it waits for is there. Entries run in the log's own
// order wherever that is possible. What remains when nothing can run any more is a deadlock.
#pragma once

#include <cstdint>
#include <vector>

#include "tile_machine/events/channels.hpp"

namespace inlay::npu {

// An entry that cannot run when it is issued has two steps: it enters its queue, later it runs.
struct StreamStep {
  std::uint32_t entry = 0;
  bool enters = false;
};

struct Order {
  std::vector<StreamStep> steps;
  std::vector<std::uint32_t> partner_of;  // of a wait the set that it takes, of a set its wait, or no_entry
  std::vector<std::uint32_t> room_of;     // of a set: the wait that must have taken an earlier set, or no_entry
  // Of a set or wait: the one before it in its channel, if that is of another queue; or no_entry.
  std::vector<std::uint32_t> turn_of;
  std::vector<std::uint32_t> unpaired_waits, leftover_sets, overruns;  // overruns: no such wait exists
  std::vector<std::uint32_t> blocked;  // deadlock: heads of queues and streams that cannot run
};

// Entries marked in `dropped` are treated as if they were not on the log.
Order order_of(const EventLog& log, const Device& device, const std::vector<bool>& dropped = {});

}  // namespace inlay::npu
