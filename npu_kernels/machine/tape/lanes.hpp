// One queue of one core is a lane. All lanes of a tape in one numbering, core by core.
#pragma once

#include <array>
#include <cstdint>

#include "npu_kernels/machine/tape/tape.hpp"

namespace inlay::npu {

class Lanes {
 public:
  Lanes() = default;
  Lanes(const Tape& tape, const Device& device)
      : cores_(tape.cores), queues_(static_cast<std::uint32_t>(device.queues.size())), queue_of_(device.queue_of) {}

  std::uint32_t cores() const { return cores_; }
  std::uint32_t queues() const { return queues_; }  // of a core
  std::uint32_t lanes() const { return cores_ * queues_; }
  std::uint32_t lane(std::uint32_t core, std::uint32_t queue) const { return core * queues_ + queue; }
  // The scalar stream is the lane of the scalar unit's queue.
  std::uint32_t scalar_lane(std::uint32_t core) const { return lane(core, queue_of(Pipe::scalar)); }
  std::uint32_t lane_of(const Entry& entry) const {
    return stops_stream(entry.event) ? scalar_lane(entry.core) : lane(entry.core, queue_of(entry.pipe));
  }
  bool on_stream(const Entry& entry) const { return lane_of(entry) == scalar_lane(entry.core); }

 private:
  // The scalar unit does these itself, whatever pipe the entry names.
  static bool stops_stream(Event event) {
    return event >= Event::barrier_all && event != Event::cross_set && event != Event::cross_wait;
  }
  std::uint32_t queue_of(Pipe pipe) const { return queue_of_[static_cast<std::size_t>(pipe)]; }

  std::uint32_t cores_ = 0, queues_ = 0;
  std::array<std::uint8_t, pipes> queue_of_{};
};

}  // namespace inlay::npu
