// The critical path: a chain of steps from tick 0 to the makespan, each of which could not come earlier
// because of the one before it. And the slack of each entry: how much later it could end without moving
// the makespan, all costs being as they were (a transfer's share of the bandwidth included).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

enum class Reason : std::uint8_t {
  work,        // the entry itself: from its start to its end
  pipe,        // its queue's previous entry ended
  issue,       // the scalar stream put it into the queue, one after the other
  queue_full,  // issued once the full queue's first entry had left
  flag,        // the set that a wait takes, and the time it needs to come over
  barrier      // barrier_all, sync_all: the last queue was empty, the last core had come
};
inline constexpr int reasons = 6;
std::string_view name(Reason reason);

struct Link {
  std::uint32_t entry = 0;  // whose step it leads to
  Step step = Step::issued;
  Reason reason = Reason::work;
  Tick begin = 0, end = 0;  // begin of a link == end of the one before
};

// From tick 0 on; empty for an empty log.
std::vector<Link> critical_path(const EventLog& log, const Device& device, const Timeline& timeline);

// By entry, in ticks. Zero: critical.
std::vector<Tick> slacks(const EventLog& log, const Device& device, const Timeline& timeline);

}  // namespace inlay::npu
