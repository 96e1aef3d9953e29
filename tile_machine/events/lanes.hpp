// One queue of one scalar stream is a lane. All streams of a log in one numbering, core by core, and all lanes,
// stream by stream. A stream has a number for each queue of the device; those of other streams stay empty.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

class Lanes {
 public:
  Lanes() = default;
  Lanes(const EventLog& log, const Device& device)
      : cores_(log.cores),
        of_a_core_(static_cast<std::uint32_t>(log.streams.size())),
        queues_(static_cast<std::uint32_t>(device.queues.size())),
        queue_of_(device.queue_of) {}

  std::uint32_t cores() const { return cores_; }
  std::uint32_t streams() const { return cores_ * of_a_core_; }
  std::uint32_t streams_of_a_core() const { return of_a_core_; }
  std::uint32_t stream_of(const Entry& entry) const { return entry.core * of_a_core_ + entry.stream; }
  std::uint32_t core_of_stream(std::uint32_t stream) const { return stream / of_a_core_; }

  std::uint32_t queues() const { return queues_; }  // of a stream
  std::uint32_t lanes() const { return streams() * queues_; }
  std::uint32_t lane(std::uint32_t stream, std::uint32_t queue) const { return stream * queues_ + queue; }
  std::uint32_t stream_of_lane(std::uint32_t lane) const { return lane / queues_; }
  // The scalar stream is the lane of the scalar unit's queue.
  std::uint32_t scalar_lane(std::uint32_t stream) const { return lane(stream, queue_of(Pipe::scalar)); }
  std::uint32_t lane_of(const Entry& entry) const {
    return stops_stream(entry.event) ? scalar_lane(stream_of(entry)) : lane(stream_of(entry), queue_of(entry.pipe));
  }
  bool on_stream(const Entry& entry) const { return lane_of(entry) == scalar_lane(stream_of(entry)); }

 private:
  // The scalar unit does these itself, whatever pipe the entry names.
  static bool stops_stream(Event event) { return event >= Event::barrier_all && !sets(event) && !waits(event); }
  std::uint32_t queue_of(Pipe pipe) const { return queue_of_[static_cast<std::size_t>(pipe)]; }

  std::uint32_t cores_ = 0, of_a_core_ = 1, queues_ = 0;
  std::array<std::uint8_t, pipes> queue_of_{};
};

// "AIV1"; of a core with one stream: nothing.
std::string stream_name(const Device& device, const std::vector<std::uint8_t>& streams, std::uint32_t stream);
// Of one of its queues: "AIV1.V" where the device calls the queue "AIV.V".
std::string queue_name(const Device& device, const std::vector<std::uint8_t>& streams, std::uint32_t stream,
                       std::uint32_t queue);

}  // namespace inlay::npu
