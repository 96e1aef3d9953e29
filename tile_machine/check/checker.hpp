// The checker: proves that a log's synchronisation orders every conflicting pair of accesses.
//
// It reads what was issued, never when it ran. From log.hpp's rules follows what happens before what
// (clocks.hpp); two accesses that share a byte (overlap.hpp), one of them a write, without such an order are a
// race, whatever the times of this run were. Entries of one queue start in order but may overlap: two
// dependent ones need a barrier of their pipe or a flag between them, unless the device says that the queue's
// entries see their predecessors (Queue::in_order_visible). Two atomic_adds do not race.
//
//   races         race_raw, race_war, race_waw; core_overlap where the two are of different cores
//   flags         unpaired_wait, leftover_flag, deadlock; flag_overrun: a set that nothing orders after the
//                 wait that makes room for it, or an id that the device does not have; ambiguous_flag: two
//                 queues set (or wait for) one flag between streams or cores without an order between them
//   scalar units  incoherent: what one wrote to global memory, or has read of it, where the device does not keep its
//                 cache coherent (scalar_lines.hpp)
//   allocations   uninitialised_read, use_after_release; capacity: two allocations in one place
//
// Executed paths only: the log of one run says nothing of the branches that it did not take, nor of other
// shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "tile_machine/check/history.hpp"
#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/report.hpp"

namespace inlay::npu {

// One report for each kind and pair of source lines, in order of first appearance; `repeated` counts the
// pairs of entries (of one entry with one queue and page, the latest 64).
std::vector<Report> check(const EventLog& log, const Device& device);

// Every racing pair of entries.
std::vector<Race> races(const EventLog& log, const Device& device);

// Sync that can go: without it all of its executions every conflicting pair is still ordered, no flag
// overruns and nothing hangs. Sets and waits that take each other's flags go together. Each is judged with
// all others in place: of two that do the same work both are listed, and one must stay. Empty for a log with
// races or with flags in disorder.
std::vector<Report> redundant_syncs(const EventLog& log, const Device& device);

}  // namespace inlay::npu
