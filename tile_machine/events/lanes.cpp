#include "tile_machine/events/lanes.hpp"

#include <algorithm>

namespace inlay::npu {

std::string stream_name(const Device& device, const std::vector<std::uint8_t>& streams, std::uint32_t stream) {
  if (streams.size() < 2 || stream >= streams.size() || streams[stream] >= device.streams.size()) return {};
  const auto mine = streams.begin() + stream;
  const std::string& name = device.streams[*mine].name;
  if (std::count(streams.begin(), streams.end(), *mine) < 2) return name;
  return name + std::to_string(std::count(streams.begin(), mine, *mine));
}

std::string queue_name(const Device& device, const std::vector<std::uint8_t>& streams, std::uint32_t stream,
                       std::uint32_t queue) {
  const std::string& name = device.queues[queue].name;
  const std::string mine = stream_name(device, streams, stream);
  if (mine.empty()) return name;
  const std::string prefix = device.streams[streams[stream]].name + ".";
  return mine + "." + (name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

}  // namespace inlay::npu
