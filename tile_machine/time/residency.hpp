// What the L2 has of each transfer, and the scalar units' caches of each read: from the log alone, before any time
// is known. Hits and misses are thus the same however fast the parts are, and all that holds of costs that do not
// depend on times (timing.hpp) holds with caches too.
//
//   order      that of issue within a stream. Streams run side by side: the next transfer is that of the stream which
//              has moved the fewest bytes so far; sync_all and the flags between cores and streams hold them back
//   L2         least recently used pages of 64 lines go first; only the lines that were touched are there.
//              Cold at the start
//   read       lines that are there come from the L2, the others from global memory, and stay
//   write      goes to the L2. A line of what outlives the run costs global memory its write-back when it becomes
//              dirty: it is paid for once for each time that it must go, whenever that is. A line of a workspace
//              pays only when it is pushed out
//   streamed   (Tensor::once, where the device has such hints) reads what is there and leaves the rest where it is;
//              writes go to global memory
//   scalar     `lines` lines of a stream, least recently used; forgotten where another stream may have written
#pragma once

#include <unordered_set>
#include <vector>

#include "tile_machine/time/cost.hpp"
#include "tile_machine/time/event_order.hpp"

namespace inlay::npu {

class Residency {
 public:
  Residency() = default;
  Residency(const EventLog& log, const Device& device, const EventOrder& order);

  // Of an entry of the log, for cost_of.
  Before before(std::uint32_t entry) const {
    return {.traffic = traffic_.empty() ? nullptr : &traffic_[entry],
            .misses = !misses_.empty() && misses_.count(entry) > 0};
  }

 private:
  Many<Traffic> traffic_;                     // by entry; empty: there is no L2
  std::unordered_set<std::uint32_t> misses_;  // scalar reads
};

}  // namespace inlay::npu
