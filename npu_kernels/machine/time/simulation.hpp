// The event loop behind time_tape. Events are starts and ends of entries, never cycles.
//
// Two kinds of agents: a lane (one queue of one stream) and a stream (one scalar unit). An agent is
// advanced when something that it may wait for has happened; it moves as far as it can at this tick.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "npu_kernels/machine/time/timing.hpp"

namespace inlay::npu {

class Simulation {
 public:
  Simulation(const Tape& tape, const Device& device, const TapeOrder& order, const TimingOptions& options);

  Status run();
  void finish(Timeline& timeline);

 private:
  enum class LaneState : std::uint8_t {
    idle,
    blocked,  // its first entry waits for a flag
    head,     // latency of a transfer that shares bandwidth
    moving,   // its bytes
    running   // anything else
  };
  struct Lane {
    std::uint32_t next = 0, issued = 0;  // of the lane's list: first not ended, first not issued
    std::uint32_t stall_cursor = 0;      // the stream's stalls before it ended before `free`
    LaneState state = LaneState::idle;
    Tick free = 0;  // end of the last entry
    Tick busy = 0;
    Cost cost;  // of the entry that runs
    StallLedger ledger;
  };

  enum class StreamState : std::uint8_t { at_entry, issuing, queue_full, flag, barrier, sync_all, running, done };
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

  struct Wake {
    Tick at;
    std::uint32_t agent;  // a lane: its entry ends; lanes + stream; lanes + streams + lane: a flag has come
    bool operator>(const Wake& other) const { return std::pair(at, agent) > std::pair(other.at, other.agent); }
  };

  // Queues (simulation_queues.cpp)
  void advance_lane(std::uint32_t lane);
  void end_entry(std::uint32_t lane);
  void charge_gap(std::uint32_t lane, Tick end, std::uint32_t entry);

  // Streams (simulation_streams.cpp)
  void advance_stream(std::uint32_t stream);
  bool step(std::uint32_t stream);
  bool put_in_queue(std::uint32_t stream, std::uint32_t entry);
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
  void stamp(std::uint32_t entry, Step step) { steps_.push_back({entry, step}); }
  // The set that a wait takes is done, and the flag has come over.
  bool arrived(std::uint32_t wait) const {
    const std::uint32_t set = order_.partner(wait);
    return set != no_entry && spans_[set].ended >= 0 && spans_[set].ended + flight(tape_.entries[set]) <= now_;
  }
  // What a wait from `begin` to now is charged to: charge(stall, begin, end).
  template <class Charge> void each_cause(std::uint32_t wait, Tick begin, Charge&& charge) const {
    const Stall of = wait_cause(tape_.entries[wait]);
    const Tick set = std::clamp(spans_[order_.partner(wait)].ended, begin, now_);
    charge(of, begin, set);
    charge(Stall{.cause = Cause::flight, .from = of.from, .to = of.to}, set, now_);
  }
  Tick flight(const Entry& set) const { return set.event == Event::stream_set ? sync_.stream : 0; }
  Tick instruction_ticks(const Entry& entry) const;
  void advance_ready();
  void end_at_now();
  Status deadlock() const;

  struct SyncTicks {
    Tick set, wait, barrier, cross, stream;
  };

  const Tape& tape_;
  const Device& device_;
  const TapeOrder& order_;
  const SyncTicks sync_;
  DramShare dram_;
  std::vector<Tick> issue_ticks_;  // by queue
  std::vector<Lane> lanes_;
  std::vector<Stream> streams_;
  std::vector<Span> spans_;
  std::vector<Stamp> steps_;
  std::vector<std::uint32_t> ready_, ended_lanes_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  Tick now_ = 0;
};

}  // namespace inlay::npu
