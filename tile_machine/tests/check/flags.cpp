// Flags in disorder and deadlocks on hand-made logs, each with a twin that is silent.
#include <gtest/gtest.h>

#include <string>

#include "tile_machine/tests/check/report_kinds.hpp"

namespace inlay::npu::test {
namespace {

using enum Pipe;

TEST(Flags, AFlagBetweenCoresHasOneSetterAtATime) {
  // Core 2 reads what core 0 wrote after one wait: the flag that it takes may be that of core 1.
  Device three = plain_device(3);
  three.sync.depth = 2;
  const auto log = [](std::uint16_t second_flag) {
    EventLogBuilder log(3);
    log.core(0).work(store, {global(writes(0, 8))});
    log.cross(Event::cross_set, store, 0, 2);
    log.core(1).work(store, {global(writes(8, 8))});
    log.cross(Event::cross_set, store, second_flag, 2);
    log.core(2).cross(Event::cross_wait, load, 0, 0);
    log.work(load, {global(reads(0, 8))});
    log.cross(Event::cross_wait, load, second_flag, 0);
    log.work(load, {global(reads(8, 8))});
    return log;
  };
  EXPECT_EQ(kinds(log(1), three), Kinds{});
  EXPECT_EQ(kinds(log(0), three), Kinds{ReportKind::ambiguous_flag});
}

TEST(Flags, UnpairedAndLeftoverFlags) {
  EventLogBuilder waits;
  waits.set(load, feed);
  waits.wait(load, feed);
  waits.wait(load, feed);
  EXPECT_EQ(kinds(waits), Kinds{ReportKind::unpaired_wait});
  EventLogBuilder sets;
  sets.set(load, feed);
  sets.wait(load, feed);
  sets.set(load, feed, 1);
  EXPECT_EQ(kinds(sets), Kinds{ReportKind::leftover_flag});
}

TEST(Flags, MoreSetsThanTheDeviceHolds) {
  const auto log = [](bool credit) {
    EventLogBuilder log;
    for (int i = 0; i < 3; ++i) {
      if (credit && i > 0) log.wait(feed, load, 1);
      log.set(load, feed);
      log.wait(load, feed);
      if (credit && i < 2) log.set(feed, load, 1);
    }
    return log;
  };
  EXPECT_EQ(kinds(log(true)), Kinds{});
  const auto reports = check(log(false).log, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::flag_overrun});
  EXPECT_EQ(reports.front().repeated, 2u);
  Device deep = one;
  deep.sync.depth = 3;
  EXPECT_EQ(kinds(log(false), deep), Kinds{});
}

TEST(Flags, IdsThatTheDeviceDoesNotHave) {
  for (const std::uint16_t id : {7, 8}) {
    EventLogBuilder log;
    log.set(load, feed, id);
    log.wait(load, feed, id);
    EXPECT_EQ(kinds(log), id == 7 ? Kinds{} : (Kinds{ReportKind::flag_overrun, ReportKind::flag_overrun}));
  }
}

TEST(Flags, DeadlockNamesWhatEachWaitsFor) {
  EventLogBuilder log;
  log.wait(feed, load);
  log.set(load, feed);
  log.wait(load, feed);
  log.set(feed, load);
  const auto reports = check(log.log, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::deadlock});
  EXPECT_NE(reports.front().message.find("(core 0, load) waits for flag 0 of feed -> load of flags.cpp:"),
            std::string::npos)
      << reports.front().message;
  EventLogBuilder lonely(2);
  lonely.core(0).sync_all();
  EXPECT_EQ(kinds(lonely, plain_device(2)), Kinds{ReportKind::deadlock});
  lonely.core(1).sync_all();
  EXPECT_EQ(kinds(lonely, plain_device(2)), Kinds{});
}

}  // namespace
}  // namespace inlay::npu::test
