// The log sorted as the hardware sees it: a list for each scalar stream and for each queue, and for each
// wait the set that it takes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <tl/expected.hpp>

#include "inlay/core/status.hpp"
#include "tile_machine/events/channels.hpp"
#include "tile_machine/events/lanes.hpp"

namespace inlay::npu {

// What the event loop asks of each entry again and again: a quarter of a cache line, where the entry is two.
struct EntryKind {
  std::uint32_t lane = 0, stream = 0;
  std::uint32_t work = 0;  // of an entry that works: which of EventOrder::works() it is
  Event event = Event::work;
  bool on_stream : 1 = false;  // of the scalar unit itself
  bool moves : 1 = false;      // a transfer
  bool multiplies : 1 = false;
  bool sets : 1 = false;
  bool waits : 1 = false;
  bool unit_flag : 1 = false;  // a set of one
};

class EventOrder : public Lanes {
 public:
  // Errors name the entry: a core, queue, path or type that the device does not have.
  static tl::expected<EventOrder, Status> of(const EventLog& log, const Device& device);

  EventOrder() = default;

  // Entries of a stream, in order of issue; those of a lane, in order of start.
  std::span<const std::uint32_t> stream(std::uint32_t number) const { return part(streams_, stream_begin_, number); }
  std::span<const std::uint32_t> queue(std::uint32_t lane) const { return part(queued_, queue_begin_, lane); }

  // Of a stream, those that reach beyond it: moves, scalar reads, flags of other streams and cores, and sync_alls.
  std::span<const std::uint32_t> outward(std::uint32_t stream) const { return outward_[stream]; }
  // The log has sets of unit flags.
  bool unit_flags() const { return unit_flags_; }

  const EntryKind& kind(std::uint32_t entry) const { return kinds_[entry]; }
  // For each work that differs from all others in what it costs an entry that does it: a log has few of them.
  std::span<const std::uint32_t> works() const { return works_; }
  // Of a set the wait that takes it, of a wait the set that it takes.
  std::uint32_t partner(std::uint32_t entry) const { return partners_[entry]; }
  // The sync_alls of a stream, in order. The n-th of every stream are one meeting.
  std::span<const std::uint32_t> sync_alls(std::uint32_t stream) const { return meetings_[stream]; }

 private:
  EventOrder(const EventLog& log, const Device& device);
  Status take(const EventLog& log, const Device& device);

  static std::span<const std::uint32_t> part(const Many<std::uint32_t>& all, const std::vector<std::uint32_t>& begin,
                                             std::uint32_t i) {
    return {all.data() + begin[i], all.data() + begin[i + 1]};
  }

  Many<std::uint32_t> streams_, queued_;
  std::vector<std::uint32_t> stream_begin_, queue_begin_, partners_;
  Many<EntryKind> kinds_;
  std::vector<std::uint32_t> works_;
  std::vector<std::vector<std::uint32_t>> meetings_, outward_;
  bool unit_flags_ = false;
};

}  // namespace inlay::npu
