// Why a pipe did nothing: every idle tick has exactly one cause, so that for each pipe
//   busy + sum of its stalls == makespan.
//
// A gap in which the pipe had nothing issued is charged to what its core's scalar stream did meanwhile:
// issuing to others (issue), or its own stall (another queue full, a flag, a barrier).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tile_machine/time/cost.hpp"

namespace inlay::npu {

enum class Cause : std::uint8_t {
  issue,       // nothing issued yet: the scalar stream was busy
  queue_full,  // the scalar stream was stopped by the full queue of `to`
  flag,        // wait(from, to, flag)
  ring_full,   // ring.acquire: the consumer `from` has not released a slot to `to`
  ring_empty,  // ring.wait: the producer `from` has not committed a slot to `to`
  flight,      // a flag of another stream is set but has not come over
  dram_share,  // a transfer took longer than alone on the device: global memory
  l2_share,    // a transfer took longer than alone on the device: the L2
  sync,        // cycles of the set, wait and barrier instructions themselves
  barrier,     // barrier_all: waiting for the core's queues to empty
  cross,       // cross_wait, sync_all: another core is not there yet
  drain        // the pipe's last entry is done, others run
};
inline constexpr int causes = 12;
std::string_view name(Cause cause);

struct Stall {
  Cause cause = Cause::issue;
  Pipe from = Pipe::scalar, to = Pipe::scalar;
  std::uint16_t flag = 0;
  Tick ticks = 0;
  std::uint32_t count = 0;
  Tick longest = 0;
  std::uint32_t entry = no_entry;  // the one that waited longest
};

// "ring empty load -> feed", "flag load -> feed #2"
std::string describe(const Stall& stall);
// What a wait charges: the flag, the ring or the other core.
Stall wait_cause(const Entry& entry);

class StallLedger {
 public:
  // `of` names the cause and its channel; ticks, count and longest are added up here.
  void add(const Stall& of, Tick ticks, std::uint32_t entry);
  void add(Cause cause, Tick ticks, std::uint32_t entry) { add(Stall{.cause = cause}, ticks, entry); }
  const std::vector<Stall>& stalls() const { return stalls_; }

 private:
  std::vector<Stall> stalls_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
};

}  // namespace inlay::npu
