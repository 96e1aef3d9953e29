// When each entry of a log starts and ends on a device: the timing model.
//
//   issue   a scalar stream puts entries into its in-order queues: issue_cycles each; it stops on a
//           full queue until that queue's first entry starts
//   start   = max(the queue's previous entry is done, issued, the flag that a wait takes is set; one between
//           streams comes over stream_cycles later)
//   end     = start + head + units / throughput (cost.hpp); transfers of global memory share its bandwidth and
//           that of the L2 (bandwidth.hpp) and may take longer. Which bytes are the L2's the log says
//           (residency.hpp)
//
// A queue works on one entry at a time, unless several transfers may be under way in it (Queue::outstanding = n):
//   start   = max(the previous entry has started, the n-th transfer before it is done, issued); a wait holds back what
//           comes after it, a set nothing; all but transfers, sets and waits start as in any queue
//   end     = max(start + head, the previous entry is done) + units / throughput: bytes move one transfer after another
//
// A unit flag (Entry::unit) joins a matrix queue and a drain in granules of their accumulator, G of them in an entry:
//   the wait passes    when the first granule of the work entry before the set is done: start + head + units / G
//   the next entry     ends no earlier than that entry's end + its own units / G
//
// A set or wait takes Sync's cycles of its queue; flags count and never block a set (more sets than the device holds
// are the checker's matter). Memories have a port for every queue: bank conflicts cost nothing. All cores start at
// tick 0.
//
// What speeds up helps? Without sharing, times are a max-plus function of the costs: no start or end gets
// later when a cost shrinks. With max-min sharing that is false (an earlier transfer takes bandwidth from
// one that the makespan hangs on; tile_machine/tests/time/timing.cpp has the example), as Graham found for list
// schedules. What holds for every entry of every log, since an agent never gets less than an equal part:
//   Sharing::none  <=  Sharing::max_min  <=  Sharing::equal_parts
// and both bounds are monotone in every bandwidth, latency and cost.
#pragma once

#include <vector>

#include <tl/expected.hpp>

#include "tile_machine/time/bandwidth.hpp"
#include "tile_machine/time/event_order.hpp"
#include "tile_machine/time/residency.hpp"
#include "tile_machine/time/stalls.hpp"
#include "tile_machine/time/unit_flags.hpp"

namespace inlay::npu {

struct Span {
  Tick issued = -1;   // into its queue; of the stream's own entries: reached
  Tick started = -1;  // left the queue; of a wait: its flag was there
  Tick ended = -1;
};

struct LaneTime {  // one queue of one stream
  std::uint32_t core = 0, stream = 0, queue = 0, entries = 0;
  Tick busy = 0;      // work at its solo cost; of the scalar stream: issue and scalar work
  Tick last_end = 0;  // of its last entry
  std::vector<Stall> stalls;
};

// A step of an entry, in an order in which each comes after all it depends on.
enum class Step : std::uint8_t { issued, started, ended };
struct Stamp {
  std::uint32_t entry;
  Step step;
};

struct Timeline {
  Tick makespan = 0;
  std::vector<Span> spans;      // of each entry of the log
  std::vector<LaneTime> lanes;  // by EventOrder::lane
  std::vector<BandwidthSample> dram;
  std::uint64_t dram_bytes = 0;  // integral of the bandwidth over time
  std::uint64_t l2_bytes = 0;    // integral of the L2's bandwidth over time
  Residency residency;
  EventOrder order;
  UnitFlags units;
  std::vector<Stamp> steps;
};

struct TimingOptions {
  Sharing sharing = Sharing::max_min;
  bool detail = true;  // false: no spans, no steps, no stalls
};

// Errors: an entry outside the device (EventOrder::of), or a deadlock, which names who waits for what.
tl::expected<Timeline, Status> time_events(const EventLog& log, const Device& device,
                                           const TimingOptions& options = {});

// The same in two steps. What no bandwidth changes: the order of the entries, what the L2 keeps, and unit flags; and
// the times of a timeline that has these.
tl::expected<Timeline, Status> order_events(const EventLog& log, const Device& device);
Status add_times(const EventLog& log, const Device& device, const TimingOptions& options, Timeline& timeline);
// The makespan alone, on a device that differs in bandwidths at most from that by which `ordered` was made, which may
// get its times meanwhile.
tl::expected<Tick, Status> makespan_of(const EventLog& log, const Device& device, const Timeline& ordered);

}  // namespace inlay::npu
