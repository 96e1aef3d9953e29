// The tape sorted as the hardware sees it: a stream for each core, a list for each queue, and for each
// wait the set that it takes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <tl/expected.hpp>

#include "npu_kernels/machine/report.hpp"
#include "npu_kernels/machine/tape.hpp"

namespace inlay::npu {

class TapeOrder {
 public:
  // Errors name the entry: a core, queue, path or type that the device does not have.
  static tl::expected<TapeOrder, Status> of(const Tape& tape, const Device& device);

  std::uint32_t cores() const { return cores_; }
  std::uint32_t queues() const { return queues_; }
  std::uint32_t lanes() const { return cores_ * queues_; }
  // One queue of one core. The scalar stream is the lane of the scalar unit's queue.
  std::uint32_t lane(std::uint32_t core, std::uint32_t queue) const { return core * queues_ + queue; }
  std::uint32_t lane_of(const Entry& entry) const {
    return stops_stream(entry.event) ? scalar_lane(entry.core)
                                     : lane(entry.core, queue_of_[static_cast<int>(entry.pipe)]);
  }
  std::uint32_t scalar_lane(std::uint32_t core) const { return lane(core, queue_of_[static_cast<int>(Pipe::scalar)]); }
  bool on_stream(const Entry& entry) const { return lane_of(entry) == scalar_lane(entry.core); }

  // Entries of a core, in order of issue; those of a lane, in order of start.
  std::span<const std::uint32_t> stream(std::uint32_t core) const { return part(streams_, stream_begin_, core); }
  std::span<const std::uint32_t> queue(std::uint32_t lane) const { return part(queued_, queue_begin_, lane); }

  // Of a set the wait that takes it, of a wait the set that it takes: the n-th of a channel meets the n-th.
  std::uint32_t partner(std::uint32_t entry) const { return partner_[entry]; }
  // The sync_alls of a core, in order. The n-th of every core are one meeting.
  std::span<const std::uint32_t> sync_alls(std::uint32_t core) const { return meetings_[core]; }

 private:
  // The scalar unit does these itself, whatever pipe the entry names.
  static bool stops_stream(Event event) {
    return event >= Event::barrier_all && event != Event::cross_set && event != Event::cross_wait;
  }
  static std::span<const std::uint32_t> part(const std::vector<std::uint32_t>& all,
                                             const std::vector<std::uint32_t>& begin, std::uint32_t i) {
    return {all.data() + begin[i], all.data() + begin[i + 1]};
  }
  void pair_flags(const Tape& tape);

  std::uint32_t cores_ = 0, queues_ = 0;
  std::array<std::uint8_t, pipes> queue_of_{};
  std::vector<std::uint32_t> streams_, stream_begin_, queued_, queue_begin_, partner_;
  std::vector<std::vector<std::uint32_t>> meetings_;
};

inline bool sets(Event event) { return event == Event::set || event == Event::cross_set; }
inline bool waits(Event event) { return event == Event::wait || event == Event::cross_wait; }

}  // namespace inlay::npu
