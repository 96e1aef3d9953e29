// The scalar streams of all cores: one fiber each, run in turn; a stream that cannot go on lets the others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tile_machine/run/fiber.hpp"

namespace inlay::npu {

class Streams {
 public:
  enum class End : std::uint8_t { finished, deadlock, no_memory, threw };

  // step(stream): lets one entry of its queues run; false: none can.
  // pending(stream): entries that stand in its queues.
  std::function<bool(std::uint32_t)> step = [](std::uint32_t) { return false; };
  std::function<bool(std::uint32_t)> pending = [](std::uint32_t) { return false; };
  // Once nothing can go on, before the streams are let run to their ends with `cancelled`.
  std::function<void()> stuck = [] {};

  End run(std::uint32_t count, const std::function<void(std::uint32_t)>& body);
  // From inside a stream: returns once ready() holds, or when the run is cancelled.
  void block(std::uint32_t stream, const std::function<bool()>& ready);
  bool cancelled() const { return cancelled_; }

 private:
  std::vector<std::unique_ptr<Fiber>> fibers_;  // as many as a run has needed so far: their stacks serve the next one
  std::vector<const std::function<bool()>*> waiting_;
  bool cancelled_ = false;
};

}  // namespace inlay::npu
