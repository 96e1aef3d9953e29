// Sync that can go, on hand-made logs.
#include <gtest/gtest.h>

#include "tile_machine/tests/check/report_kinds.hpp"

namespace inlay::npu::test {
namespace {

using enum Pipe;

// load fills a slot, feed empties it, four times; the slot comes back by a flag.
EventLogBuilder ring(bool extra_barrier, bool extra_flag) {
  EventLogBuilder log;
  for (int i = 0; i < 4; ++i) {
    if (i > 0) log.wait(feed, load);
    log.work(load, {writes(0, 64)});
    if (extra_barrier) log.barrier(load);
    log.set(load, feed);
    if (extra_flag) log.set(load, vector, 1);
    if (extra_flag) log.wait(load, vector, 1);
    if (extra_flag) log.set(vector, feed, 2);
    if (extra_flag) log.wait(vector, feed, 2);
    log.wait(load, feed);
    log.work(feed, {reads(0, 64)});
    if (i < 3) log.set(feed, load);
  }
  return log;
}

TEST(Redundant, ATightRingHasNone) { EXPECT_TRUE(redundant_syncs(ring(false, false).log, one).empty()); }

TEST(Redundant, ABarrierBesideAFlagCanGo) {
  const auto reports = redundant_syncs(ring(true, false).log, one);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports.front().repeated, 4u);
  EXPECT_EQ(reports.front().message.substr(0, 35), "the barrier at redundant_syncs.cpp:") << reports.front().message;
}

TEST(Redundant, OfTwoWaysEachIsListed) {
  // load -> feed stands beside load -> vector -> feed. On a device with room for all flags each of the three
  // pairs can go; where a channel holds one flag, the two of the detour keep each other from overrunning.
  Device deep = one;
  deep.sync.depth = 4;
  EXPECT_EQ(redundant_syncs(ring(false, true).log, deep).size(), 3u);
  const auto reports = redundant_syncs(ring(false, true).log, one);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports.front().repeated, 8u);
  EXPECT_EQ(reports.front().first.pipe, load);
  EXPECT_EQ(reports.front().second.pipe, feed);
}

TEST(Redundant, AFaultyLogHasNone) {
  EventLogBuilder log = ring(true, false);
  log.work(vector, {writes(0, 64)});
  EXPECT_TRUE(redundant_syncs(log.log, one).empty());
}

}  // namespace
}  // namespace inlay::npu::test
