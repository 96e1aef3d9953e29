// The event loop behind time_events. Events are starts and ends of entries, never cycles.
//
// Two kinds of agents: a lane (one queue of one stream) and a stream (one scalar unit). An agent is
// advanced when something that it may wait for has happened; it moves as far as it can at this tick.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tile_machine/time/timing.hpp"
#include "tile_machine/time/wake_queue.hpp"

namespace inlay::npu {

class Simulation {
 public:
  // Of `ordered` what depends on the log alone: its order, the L2's bytes, unit flags.
  Simulation(const EventLog& log, const Device& device, const Timeline& ordered, const TimingOptions& options);

  Status run();
  Tick makespan() const { return now_; }
  void finish(Timeline& timeline);

 private:
  // Of the first entry that has not ended. Others may have started behind it (Queue::outstanding).
  enum class LaneState : std::uint8_t {
    idle,       // it has not started
    head,       // latency of a transfer that shares bandwidth
    moving_l2,  // its bytes that the L2 has
    moving,     // the others
    running,    // anything else
    following   // its work is done, but not that of the entry that it follows by a unit flag
  };
  struct Lane {
    std::uint32_t next = 0, begun = 0, issued = 0;  // of the lane's list: first not ended, not started, not issued
    std::uint32_t outstanding = 1, transfers = 0;   // transfers that may be under way, and that are
    std::uint32_t stream = 0, depth = 0;            // whose it is, and how many entries it holds
    Tick issue = 0;                                 // of one entry, by the scalar unit
    std::uint32_t stall_cursor = 0;                 // the stream's stalls before it ended before `free`
    LaneState state = LaneState::idle;
    Tick free = 0;    // end of the last entry
    Tick passed = 0;  // the last wait that it has passed is done
    Tick looks = -1;  // it is looked at again then, when its next entry is issued
    Tick busy = 0;
    Tick moves = 0;      // the first entry's bytes began to move, or its units to be worked
    Tick l2_waited = 0;  // what it lost to others in the L2
    Tick done = 0;       // the first entry's own work was done: it may have to follow another's
    Cost cost;           // of it
    StallLedger ledger;
  };

  enum class StreamState : std::uint8_t {
    at_entry,
    ahead,
    issuing,
    queue_full,
    flag,
    barrier,
    sync_all,
    running,
    done
  };
  struct StreamStall {
    Tick begin, end;
    Stall of;
  };
  struct Stream {
    std::uint32_t next = 0;         // of its entries
    std::uint32_t outstanding = 0;  // issued to queues, not ended
    StreamState state = StreamState::at_entry;
    Tick since = 0;    // of the state
    Tick until = 0;    // of issuing and running
    Tick emptied = 0;  // when outstanding last became 0
    std::vector<StreamStall> stalls;
  };

  // Queues (simulation_queues.cpp)
  void advance_lane(std::uint32_t lane);
  static bool overlaps(const EntryKind& kind) { return kind.waits || kind.sets || kind.moves; }
  bool may_begin(std::uint32_t lane, std::uint32_t index) const;
  void begin(std::uint32_t lane);
  void run_first(std::uint32_t lane);
  void wake_set(std::uint32_t set, const Lane& lane, std::uint32_t work);
  bool move_bytes(std::uint32_t lane);
  bool may_end(std::uint32_t lane);
  void end_entry(std::uint32_t lane);
  Tick work_of(const Lane& lane, std::uint32_t entry) const;
  void charge(std::uint32_t lane, std::uint32_t entry);
  void charge_gap(std::uint32_t lane, Tick end, std::uint32_t entry);

  // Streams (simulation_streams.cpp)
  void advance_stream(std::uint32_t stream);
  bool step(std::uint32_t stream);
  bool put_in_queue(std::uint32_t stream, std::uint32_t entry);
  void issue(std::uint32_t stream, std::uint32_t entry, Tick at);
  void issue_ahead(std::uint32_t stream);
  bool may_start(std::uint32_t stream, std::uint32_t entry);
  void start_on_stream(std::uint32_t stream, std::uint32_t entry);
  bool all_at_sync() const;
  void stop(std::uint32_t stream, StreamState state);
  void charge_stop(std::uint32_t stream, const Stall& of, Tick begin, Tick end);
  void pass_time(std::uint32_t stream, Tick ticks);

  // Both
  void wake(std::uint32_t agent) { ready_.push_back(agent); }
  void wake_stream(std::uint32_t stream) { ready_.push_back(order_.lanes() + stream); }
  void signal(std::uint32_t entry);
  void stamp(std::uint32_t entry, Step step) {
    if (detail_) steps_.push_back({entry, step});
  }
  bool ended(std::uint32_t entry) const { return entry != no_entry && spans_[entry].ended >= 0; }
  // The set that a wait takes is done, and the flag has come over.
  bool arrived(std::uint32_t wait) const {
    const std::uint32_t set = order_.partner(wait);
    return ended(set) && spans_[set].ended + flight(set) <= now_;
  }
  // The set has arrived, or it is that of a unit flag whose first granule is done, for which a queue need not wait
  // longer.
  bool standing(std::uint32_t wait) const {
    const std::uint32_t set = order_.partner(wait);
    return arrived(wait) || (set != no_entry && units_.any() && early_[set]);
  }
  // What a wait from `begin` to `end` is charged to: charge(stall, begin, end).
  template <class Charge> void each_cause(std::uint32_t wait, Tick begin, Tick end, Charge&& charge) const {
    const Stall of = wait_cause(log_.entries[wait]);
    const std::uint32_t taken = order_.partner(wait);
    const bool flies = flight(taken) > 0;
    const Tick set = flies ? std::clamp(spans_[taken].ended, begin, end) : end;
    charge(of, begin, set);
    charge(Stall{.cause = Cause::flight, .from = of.from, .to = of.to}, set, end);
  }
  Tick flight(std::uint32_t set) const { return order_.kind(set).event == Event::stream_set ? sync_.stream : 0; }
  Tick instruction_ticks(Event event) const;
  void advance_ready();
  void end_at_now();
  Status deadlock() const;
  bool in_future(std::uint32_t lane, std::uint32_t entry);

  struct SyncTicks {
    Tick set, wait, barrier, cross, stream;
  };

  const EventLog& log_;
  const Device& device_;
  const EventOrder& order_;
  const SyncTicks sync_;
  const Residency& residency_;
  const bool detail_;
  BandwidthShare dram_, l2_;
  std::vector<Lane> lanes_;
  std::vector<Stream> streams_;
  Many<Span> spans_;
  std::vector<Cost> costs_;  // of EventOrder::works(), where the L2 has nothing
  std::vector<Stamp> steps_;
  std::vector<std::uint32_t> ready_, ended_lanes_;
  WakeQueue wakes_;
  std::vector<std::uint64_t> awake_;  // agents at this tick: a lane, or lanes + stream
  // Agents beyond lanes and streams: lanes + streams + lane looks at a lane again; then come the sets of unit flags.
  std::uint32_t again_ = 0, sets_ = 0;
  const UnitFlags& units_;
  std::vector<bool> early_;               // sets of unit flags whose first granule is done
  std::vector<std::uint32_t> followers_;  // lanes whose work is done before its leader's
  Tick now_ = 0;
};

}  // namespace inlay::npu
