#include "tile_machine/events/words.hpp"

#include "tile_machine/events/lanes.hpp"

namespace inlay::npu {

Place place_of(const EventLog& log, std::uint32_t entry) {
  if (entry == no_entry) return {{}, 0, Pipe::scalar, no_entry, 0};
  const Entry& it = log.entries[entry];
  return {it.site, it.core, it.pipe, entry, it.stream};
}

std::string entry_words(const EventLog& log, const Device& device, std::uint32_t entry) {
  const Entry& it = log.entries[entry];
  std::string text = line_of(it.site);
  if (*it.verb != '\0') text += std::string(" ") + it.verb;
  const std::string stream = stream_name(device, log.streams, it.stream);
  return text + " (core " + std::to_string(it.core) + (stream.empty() ? "" : ", " + stream) + ", " +
         std::string(name(it.pipe)) + ")";
}

std::string byte_words(const EventLog& log, const Device& device, std::uint32_t buffer, std::uint64_t byte) {
  if (buffer >= log.buffers.size()) return "byte " + std::to_string(byte);
  const Buffer& it = log.buffers[buffer];
  return "byte " + std::to_string(byte - it.begin) + " of '" + it.name + "' in " + device.memories[it.memory].name;
}

}  // namespace inlay::npu
