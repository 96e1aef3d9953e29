// Channels: where sets meet waits. The n-th wait of a channel takes its n-th set.
//
//   set, wait               a channel for each (core, stream, from, to, flag)
//   stream_set, stream_wait  a channel for each (core, from stream, to stream, flag)
//   cross_set, cross_wait   a channel for each (core that waits, flag)
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

struct ChannelId {
  std::uint32_t ends = 0;  // a number for (stream, from, to), (stream, from stream), or who others signal
  std::uint16_t flag = 0;
  friend auto operator<=>(const ChannelId&, const ChannelId&) = default;
};

// Of a set or wait. `streams`: of a core.
ChannelId channel_of(const Entry& entry, std::size_t streams);
// "flag 3 of load -> feed", "flag 3 of core 1": how messages name it.
std::string channel_name(const Entry& entry);

// Its entries, in order of issue.
struct Channel {
  std::vector<std::uint32_t> sets, waits;
};

// All of a log's. Entries marked in `dropped` are treated as if they were not on it.
std::vector<Channel> channels_of(const EventLog& log, const std::vector<bool>& dropped = {});

// By entry: of a wait the set that it takes, of a set the wait that takes it, or no_entry.
std::vector<std::uint32_t> partners_of(const EventLog& log, const std::vector<Channel>& channels);

}  // namespace inlay::npu
