// Unit flags of a log (timing.hpp): which work leads, which follows it granule by granule. Products and moves do.
#pragma once

#include <vector>

#include "tile_machine/time/residency.hpp"

namespace inlay::npu {

class UnitFlags {
 public:
  UnitFlags() = default;
  UnitFlags(const EventLog& log, const Device& device, const EventOrder& order);

  bool any() const { return !leader_.empty(); }
  // Of a unit flag's set: the work before it. Of a work entry: the one that it follows. Else no_entry.
  std::uint32_t leader(std::uint32_t entry) const { return any() ? leader_[entry] : no_entry; }
  // Of a follower: the wait between them.
  std::uint32_t wait(std::uint32_t entry) const { return wait_[entry]; }
  // Of a leader: the sets of unit flags that follow it in its queue.
  template <class Visit> void each_set(std::uint32_t work, Visit&& visit) const {
    for (std::uint32_t set = any() ? set_[work] : no_entry; set != no_entry; set = set_[set]) visit(set);
  }
  // Ticks of one granule of a work entry that takes `units`.
  static Tick granule(const Device& device, const Work& work, Tick units);

 private:
  Many<std::uint32_t> leader_, wait_, set_;  // by entry; empty: the log has no unit flags
};

}  // namespace inlay::npu
