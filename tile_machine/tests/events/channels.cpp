// Which set a wait takes, and which entries are of one channel.
#include "tile_machine/events/channels.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tile_machine/tests/events/event_log_builder.hpp"

namespace inlay::npu::test {
namespace {

using enum Pipe;

TEST(Channels, TheNthWaitTakesTheNthSet) {
  EventLogBuilder log;
  const auto early = log.wait(load, feed), first = log.set(load, feed), second = log.set(load, feed),
             late = log.wait(load, feed), left = log.set(load, feed);
  const auto partner_of = partners_of(log.log, channels_of(log.log));
  EXPECT_EQ(partner_of[early], first);
  EXPECT_EQ(partner_of[late], second);
  EXPECT_EQ(partner_of[first], early);
  EXPECT_EQ(partner_of[second], late);
  EXPECT_EQ(partner_of[left], no_entry);
}

TEST(Channels, ADroppedEntryGivesItsPlaceToTheNext) {
  EventLogBuilder log;
  const auto first = log.set(load, feed), second = log.set(load, feed), wait = log.wait(load, feed);
  std::vector<bool> dropped(log.log.entries.size());
  dropped[first] = true;
  const auto partner_of = partners_of(log.log, channels_of(log.log, dropped));
  EXPECT_EQ(partner_of[wait], second);
  EXPECT_EQ(partner_of[first], no_entry);
}

TEST(Channels, BetweenCoresTheChannelIsOfTheCoreThatWaits) {
  EventLogBuilder log(3);
  const auto from_0 = log.core(0).cross(Event::cross_set, store, 5, 2);
  const auto to_1 = log.core(0).cross(Event::cross_set, store, 5, 1);
  const auto from_1 = log.core(1).cross(Event::cross_set, vector, 5, 2);
  const auto wait_1 = log.core(1).cross(Event::cross_wait, load, 5, 1);
  const auto wait_2 = log.core(2).cross(Event::cross_wait, load, 5, 2);
  const auto again_2 = log.core(2).cross(Event::cross_wait, feed, 5, 2);
  const auto partner_of = partners_of(log.log, channels_of(log.log));
  EXPECT_EQ(partner_of[wait_1], to_1);
  EXPECT_EQ(partner_of[wait_2], from_0);
  EXPECT_EQ(partner_of[again_2], from_1);
}

TEST(Channels, HaveNames) {
  EventLogBuilder log(2);
  const auto set = log.set(load, feed, 3), cross = log.cross(Event::cross_set, store, 5, 1);
  const auto wait = log.core(1).cross(Event::cross_wait, load, 5, 1);
  const auto across = log.core(1, 2).across(Event::stream_wait, load, 7, 1);
  EXPECT_EQ(channel_name(log.log.entries[across]), "flag 7 of load -> load (streams 1 -> 2)");
  EXPECT_EQ(channel_name(log.log.entries[set]), "flag 3 of load -> feed");
  EXPECT_EQ(channel_name(log.log.entries[cross]), "flag 5 of core 1");
  EXPECT_EQ(channel_name(log.log.entries[wait]), "flag 5 of core 1");
}

TEST(Channels, BetweenStreamsTheChannelIsOfThePairOfStreams) {
  EventLogBuilder log(2);
  log.log.streams = {0, 1, 1};
  const auto to_1 = log.core(0, 0).across(Event::stream_set, drain, 4, 1);
  const auto to_2 = log.core(0, 0).across(Event::stream_set, store, 4, 2);
  const auto elsewhere = log.core(1, 0).across(Event::stream_set, drain, 4, 1);
  const auto back = log.core(0, 1).across(Event::stream_set, store, 4, 0);
  const auto wait_2 = log.core(0, 2).across(Event::stream_wait, load_vector, 4, 0);
  const auto wait_1 = log.core(0, 1).across(Event::stream_wait, scalar, 4, 0);
  const auto wait_0 = log.core(0, 0).across(Event::stream_wait, load, 4, 1);
  const auto partner_of = partners_of(log.log, channels_of(log.log));
  EXPECT_EQ(partner_of[wait_1], to_1);
  EXPECT_EQ(partner_of[wait_2], to_2);
  EXPECT_EQ(partner_of[wait_0], back);
  EXPECT_EQ(partner_of[elsewhere], no_entry);
}

// No two of (core, stream, from, to, flag), (core, from stream, to stream, flag) and (core, stream, flag) have one id.
TEST(Channels, IdsDiffer) {
  EventLogBuilder log(3);
  constexpr std::uint8_t streams = 3;
  log.log.streams.assign(streams, 0);
  std::map<ChannelId, int> ids;
  int channels = 0;
  const auto id = [&](std::uint32_t entry) { return channel_of(log.log.entries[entry], streams); };
  for (std::uint16_t place = 0; place < 3 * streams; ++place)
    for (std::uint16_t flag = 0; flag < 3; ++flag) {
      const auto core = static_cast<std::uint16_t>(place / streams);
      const auto stream = static_cast<std::uint8_t>(place % streams);
      log.core(core, stream);
      for (int from = 0; from < pipes; ++from)
        for (int to = 0; to < pipes; ++to, ++channels) {
          const auto set = log.set(static_cast<Pipe>(from), static_cast<Pipe>(to), flag);
          const auto wait = log.wait(static_cast<Pipe>(from), static_cast<Pipe>(to), flag);
          EXPECT_EQ(id(set), id(wait));
          ++ids[id(set)];
        }
      for (std::uint8_t peer = 0; peer < streams; ++peer, ++channels) {
        const auto set = log.core(core, stream).across(Event::stream_set, load, flag, peer);
        EXPECT_EQ(id(set), id(log.core(core, peer).across(Event::stream_wait, feed, flag, stream)));
        ++ids[id(set)];
      }
      log.core(core, stream);
      const auto other = static_cast<std::uint16_t>((core + 1) % 3);
      ++ids[id(log.cross(Event::cross_set, load, flag, other))];
      ++channels;
    }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(channels));
  EXPECT_EQ(channels_of(log.log).size(), static_cast<std::size_t>(channels));
}

}  // namespace
}  // namespace inlay::npu::test
