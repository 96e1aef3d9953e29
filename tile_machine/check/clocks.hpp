// Vector clocks over a log: what is known to be complete when an entry starts.
//
// One component for each lane (a queue of a stream): how many of its entries, from the first on, are known to be
// complete. Completion becomes known only through sync, and sync always speaks of all that a lane has been
// given before; so a count is exact, although entries of one lane may overlap in time.
//
// Entry b happens after entry a of lane l, the n-th there, exactly if clock(b)[l] > n. An entry's own lane
// is no exception: without a barrier its predecessors have started, not finished (unless in_order_visible).
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tile_machine/check/order.hpp"
#include "tile_machine/events/lanes.hpp"

namespace inlay::npu {

class Clocks {
 public:
  Clocks(const EventLog& log, const Device& device, const Order& order);

  // Takes the next step that runs an entry; false at the end.
  bool next();
  std::uint32_t entry() const { return entry_; }
  std::uint32_t lane() const { return lane_; }
  std::uint32_t position() const { return position_; }  // of the entry in its lane
  // Work: what is complete when it starts. Sync: when it is done.
  bool knows(std::uint32_t lane, std::uint32_t position) const { return (*clock_)[lane] > position; }
  // Of a set: the wait that must take an earlier flag of its channel is done before, whatever the times.
  bool has_room() const;
  // Of a set or wait: the one before it in its channel is done before, whatever the times.
  bool has_turn() const { return has_turn_; }

 private:
  using Clock = std::vector<std::uint32_t>;

  bool comes_after_its_predecessor() const;
  void enter(std::uint32_t entry);
  void run();
  void set();
  void take(std::uint32_t set);
  void join_stream(std::uint32_t stream, Clock& into) const;
  void meet(std::uint32_t stream);

  const EventLog& log_;
  const Order& order_;
  Lanes lanes_;
  std::size_t step_ = 0;
  std::uint32_t entry_ = 0, lane_ = 0, position_ = 0;
  bool has_turn_ = true;
  const Clock* clock_ = nullptr;

  std::vector<bool> visible_;             // by lane: in_order_visible
  std::vector<Clock> clocks_;             // by lane; a stream's is also what later issues start from
  std::vector<std::uint32_t> ran_;        // by lane: entries so far
  std::vector<std::uint32_t> positions_;  // by entry; no_entry: has not run

  std::vector<std::uint32_t> stream_version_, seen_version_;  // by stream, by lane: is there news of the stream?
  std::vector<std::shared_ptr<const Clock>> at_issue_;        // by stream: its clock for entries that wait
  std::unordered_map<std::uint32_t, std::shared_ptr<const Clock>> entered_;  // by entry

  std::vector<Clock> pool_;  // of the sets that no wait has taken yet
  std::vector<std::uint32_t> free_, slot_of_;
  std::vector<std::uint32_t> meetings_;  // by stream: sync_all's so far
  std::vector<Clock> met_;               // by meeting
};

}  // namespace inlay::npu
