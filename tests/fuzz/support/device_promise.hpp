// What the loader of device descriptions promises of every text, however odd. The fuzz target and the test
// that replays its findings ask the same question.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "tile_machine/device/device.hpp"

namespace inlay::npu {

// Empty, or the promise that `text` makes the loader break.
inline std::string broken_promise(std::string_view text) {
  constexpr std::size_t longest_message = 1500;
  const auto device = parse_device(text);
  if (!device) {
    const std::string_view message = device.error().message();
    if (device.error().code() != StatusCode::corrupt_data) return "a refusal is corrupt data";
    if (!message.starts_with('/')) return "a refusal names a key: " + std::string(message);
    if (message.size() > longest_message) return "a message is short";
    const bool printable = std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; });
    return printable ? "" : "a message is printable";
  }
  if (device->name.empty() || device->version < 1 || device->cores < 1)
    return "a device has a name, a version and cores";
  if (device->memory_of[0] != 0) return "the first memory is global memory";
  for (const auto memory : device->memory_of)
    if (memory >= device->memories.size()) return "a role is a memory of the device";
  for (const auto queue : device->queue_of)
    if (queue >= device->queues.size()) return "a role is a queue of the device";
  for (const Memory& memory : device->memories)
    if (memory.align == 0 || memory.bytes % memory.align != 0) return "a memory is a multiple of its alignment";
  for (const Path& path : device->paths)
    if (!(path.bytes_per_cycle > 0) || !(path.half_burst >= 0) || !(path.latency >= 0) ||
        device->same_memory(path.from, path.to) || device->path(path.from, path.to) != &path)
      return "a path moves bytes between two memories";
  for (const MatrixRate& rate : device->matrix.rates)
    if (!(rate.cycles > 0) || rate.m * rate.n * rate.k == 0 || device->rate(rate.in, rate.out) != &rate)
      return "a step of the matrix unit has a size and takes time";
  for (const VectorCost& cost : device->vector.cost)
    if (!(cost.slope > 0) || !(cost.head >= 0)) return "a vector operation takes time";
  for (const Provenance& entry : device->provenance)
    if (entry.pointer.empty() || entry.source.empty() || entry.confidence.empty()) return "a number has its provenance";
  return "";
}

}  // namespace inlay::npu
