// Which set a wait takes, and which entries are of one channel.
#include "npu_kernels/machine/tape/channels.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/machine/tape/tape_builder.hpp"

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
  EXPECT_EQ(channel_name(tape.tape.entries[set]), "flag 3 of load -> feed");
  EXPECT_EQ(channel_name(tape.tape.entries[cross]), "flag 5 of core 1");
  EXPECT_EQ(channel_name(tape.tape.entries[wait]), "flag 5 of core 1");
}

// No two of (core, from, to, flag) and (core, flag) have one id.
TEST(Channels, IdsDiffer) {
  TapeBuilder tape(3);
  std::map<ChannelId, int> ids;
  int channels = 0;
  for (std::uint16_t core = 0; core < 3; ++core)
    for (std::uint16_t flag = 0; flag < 3; ++flag) {
      tape.core(core);
      for (int from = 0; from < pipes; ++from)
        for (int to = 0; to < pipes; ++to, ++channels) {
          const auto set = tape.set(static_cast<Pipe>(from), static_cast<Pipe>(to), flag);
          const auto wait = tape.wait(static_cast<Pipe>(from), static_cast<Pipe>(to), flag);
          EXPECT_EQ(channel_of(tape.tape.entries[set]), channel_of(tape.tape.entries[wait]));
          ++ids[channel_of(tape.tape.entries[set])];
        }
      const auto other = static_cast<std::uint16_t>((core + 1) % 3);
      ++ids[channel_of(tape.tape.entries[tape.cross(Event::cross_set, load, flag, other)])];
      ++channels;
    }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(channels));
  EXPECT_EQ(channels_of(tape.tape).size(), static_cast<std::size_t>(channels));
}

}  // namespace
}  // namespace inlay::npu::test
