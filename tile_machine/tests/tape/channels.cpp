// Which set a wait takes, and which entries are of one channel.
#include "tile_machine/tape/channels.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tile_machine/tests/tape/tape_builder.hpp"

namespace inlay::npu::test {
namespace {

using enum Pipe;

TEST(Channels, TheNthWaitTakesTheNthSet) {
  TapeBuilder tape;
  const auto early = tape.wait(load, feed), first = tape.set(load, feed), second = tape.set(load, feed),
             late = tape.wait(load, feed), left = tape.set(load, feed);
  const auto partner_of = partners_of(tape.tape, channels_of(tape.tape));
  EXPECT_EQ(partner_of[early], first);
  EXPECT_EQ(partner_of[late], second);
  EXPECT_EQ(partner_of[first], early);
  EXPECT_EQ(partner_of[second], late);
  EXPECT_EQ(partner_of[left], no_entry);
}

TEST(Channels, ADroppedEntryGivesItsPlaceToTheNext) {
  TapeBuilder tape;
  const auto first = tape.set(load, feed), second = tape.set(load, feed), wait = tape.wait(load, feed);
  std::vector<bool> dropped(tape.tape.entries.size());
  dropped[first] = true;
  const auto partner_of = partners_of(tape.tape, channels_of(tape.tape, dropped));
  EXPECT_EQ(partner_of[wait], second);
  EXPECT_EQ(partner_of[first], no_entry);
}

TEST(Channels, BetweenCoresTheChannelIsOfTheCoreThatWaits) {
  TapeBuilder tape(3);
  const auto from_0 = tape.core(0).cross(Event::cross_set, store, 5, 2);
  const auto to_1 = tape.core(0).cross(Event::cross_set, store, 5, 1);
  const auto from_1 = tape.core(1).cross(Event::cross_set, vector, 5, 2);
  const auto wait_1 = tape.core(1).cross(Event::cross_wait, load, 5, 1);
  const auto wait_2 = tape.core(2).cross(Event::cross_wait, load, 5, 2);
  const auto again_2 = tape.core(2).cross(Event::cross_wait, feed, 5, 2);
  const auto partner_of = partners_of(tape.tape, channels_of(tape.tape));
  EXPECT_EQ(partner_of[wait_1], to_1);
  EXPECT_EQ(partner_of[wait_2], from_0);
  EXPECT_EQ(partner_of[again_2], from_1);
}

TEST(Channels, HaveNames) {
  TapeBuilder tape(2);
  const auto set = tape.set(load, feed, 3), cross = tape.cross(Event::cross_set, store, 5, 1);
  const auto wait = tape.core(1).cross(Event::cross_wait, load, 5, 1);
  const auto across = tape.core(1, 2).across(Event::stream_wait, load, 7, 1);
  EXPECT_EQ(channel_name(tape.tape.entries[across]), "flag 7 of load -> load (streams 1 -> 2)");
  EXPECT_EQ(channel_name(tape.tape.entries[set]), "flag 3 of load -> feed");
  EXPECT_EQ(channel_name(tape.tape.entries[cross]), "flag 5 of core 1");
  EXPECT_EQ(channel_name(tape.tape.entries[wait]), "flag 5 of core 1");
}

TEST(Channels, BetweenStreamsTheChannelIsOfThePairOfStreams) {
  TapeBuilder tape(2);
  tape.tape.streams = {0, 1, 1};
  const auto to_1 = tape.core(0, 0).across(Event::stream_set, drain, 4, 1);
  const auto to_2 = tape.core(0, 0).across(Event::stream_set, store, 4, 2);
  const auto elsewhere = tape.core(1, 0).across(Event::stream_set, drain, 4, 1);
  const auto back = tape.core(0, 1).across(Event::stream_set, store, 4, 0);
  const auto wait_2 = tape.core(0, 2).across(Event::stream_wait, load_vector, 4, 0);
  const auto wait_1 = tape.core(0, 1).across(Event::stream_wait, scalar, 4, 0);
  const auto wait_0 = tape.core(0, 0).across(Event::stream_wait, load, 4, 1);
  const auto partner_of = partners_of(tape.tape, channels_of(tape.tape));
  EXPECT_EQ(partner_of[wait_1], to_1);
  EXPECT_EQ(partner_of[wait_2], to_2);
  EXPECT_EQ(partner_of[wait_0], back);
  EXPECT_EQ(partner_of[elsewhere], no_entry);
}

// No two of (core, stream, from, to, flag), (core, from stream, to stream, flag) and (core, stream, flag) have one id.
TEST(Channels, IdsDiffer) {
  TapeBuilder tape(3);
  constexpr std::uint8_t streams = 3;
  tape.tape.streams.assign(streams, 0);
  std::map<ChannelId, int> ids;
  int channels = 0;
  const auto id = [&](std::uint32_t entry) { return channel_of(tape.tape.entries[entry], streams); };
  for (std::uint16_t place = 0; place < 3 * streams; ++place)
    for (std::uint16_t flag = 0; flag < 3; ++flag) {
      const auto core = static_cast<std::uint16_t>(place / streams);
      const auto stream = static_cast<std::uint8_t>(place % streams);
      tape.core(core, stream);
      for (int from = 0; from < pipes; ++from)
        for (int to = 0; to < pipes; ++to, ++channels) {
          const auto set = tape.set(static_cast<Pipe>(from), static_cast<Pipe>(to), flag);
          const auto wait = tape.wait(static_cast<Pipe>(from), static_cast<Pipe>(to), flag);
          EXPECT_EQ(id(set), id(wait));
          ++ids[id(set)];
        }
      for (std::uint8_t peer = 0; peer < streams; ++peer, ++channels) {
        const auto set = tape.core(core, stream).across(Event::stream_set, load, flag, peer);
        EXPECT_EQ(id(set), id(tape.core(core, peer).across(Event::stream_wait, feed, flag, stream)));
        ++ids[id(set)];
      }
      tape.core(core, stream);
      const auto other = static_cast<std::uint16_t>((core + 1) % 3);
      ++ids[id(tape.cross(Event::cross_set, load, flag, other))];
      ++channels;
    }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(channels));
  EXPECT_EQ(channels_of(tape.tape).size(), static_cast<std::size_t>(channels));
}

}  // namespace
}  // namespace inlay::npu::test
