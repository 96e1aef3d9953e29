#include "tile_machine/events/channels.hpp"

#include <algorithm>

namespace inlay::npu {

// Ends of the channels of one stream: pairs of its pipes, what the streams of its core send it, what other cores do.
ChannelId channel_of(const Entry& entry, std::size_t streams) {
  constexpr std::uint32_t pairs = pipes * pipes;
  const auto all = static_cast<std::uint32_t>(streams), of_a_stream = pairs + all + 1;
  const auto ends = [&](std::uint32_t core, std::uint32_t stream, std::uint32_t end) {
    return ChannelId{(core * all + stream) * of_a_stream + end, entry.flag};
  };
  const auto from = static_cast<std::uint32_t>(entry.from), to = static_cast<std::uint32_t>(entry.to);
  switch (entry.event) {
    case Event::cross_set: return ends(entry.peer, entry.stream, pairs + all);
    case Event::cross_wait: return ends(entry.core, entry.stream, pairs + all);
    case Event::stream_set: return ends(entry.core, entry.peer_stream, pairs + entry.stream);
    case Event::stream_wait: return ends(entry.core, entry.stream, pairs + entry.peer_stream);
    default: return ends(entry.core, entry.stream, from * pipes + to);
  }
}

std::string channel_name(const Entry& entry) {
  const std::string flag = "flag " + std::to_string(entry.flag) + " of ";
  if (entry.event == Event::cross_set) return flag + "core " + std::to_string(entry.peer);
  if (entry.event == Event::cross_wait) return flag + "core " + std::to_string(entry.core);
  const std::string ends = std::string(name(entry.from)) + " -> " + std::string(name(entry.to));
  if (entry.event == Event::stream_set)
    return flag + ends + " (streams " + std::to_string(entry.stream) + " -> " + std::to_string(entry.peer_stream) + ")";
  if (entry.event == Event::stream_wait)
    return flag + ends + " (streams " + std::to_string(entry.peer_stream) + " -> " + std::to_string(entry.stream) + ")";
  return flag + ends;
}

std::vector<Channel> channels_of(const EventLog& log, const std::vector<bool>& dropped) {
  std::vector<Channel> channels;
  std::vector<std::vector<std::uint32_t>> numbers;  // by ends, by flag: tables that grow with the ids in use
  for (std::uint32_t e = 0; e < log.entries.size(); ++e) {
    const Entry& entry = log.entries[e];
    if ((!sets(entry.event) && !waits(entry.event)) || (!dropped.empty() && dropped[e])) continue;
    const ChannelId id = channel_of(entry, log.streams.size());
    if (numbers.size() <= id.ends) numbers.resize(id.ends + std::size_t{1});
    auto& of_flags = numbers[id.ends];
    if (of_flags.size() <= id.flag) of_flags.resize(id.flag + std::size_t{1}, no_entry);
    std::uint32_t& number = of_flags[id.flag];
    if (number == no_entry) {
      number = static_cast<std::uint32_t>(channels.size());
      channels.emplace_back();
    }
    (sets(entry.event) ? channels[number].sets : channels[number].waits).push_back(e);
  }
  return channels;
}

std::vector<std::uint32_t> partners_of(const EventLog& log, const std::vector<Channel>& channels) {
  std::vector<std::uint32_t> partners(log.entries.size(), no_entry);
  for (const auto& [sets, waits] : channels)
    for (std::size_t n = 0; n < std::min(sets.size(), waits.size()); ++n) {
      partners[waits[n]] = sets[n];
      partners[sets[n]] = waits[n];
    }
  return partners;
}

}  // namespace inlay::npu
