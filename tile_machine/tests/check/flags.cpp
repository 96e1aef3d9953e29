// Flags in disorder and deadlocks on hand-made tapes, each with a twin that is silent.
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
  const auto tape = [](std::uint16_t second_flag) {
    TapeBuilder tape(3);
    tape.core(0).work(store, {global(writes(0, 8))});
    tape.cross(Event::cross_set, store, 0, 2);
    tape.core(1).work(store, {global(writes(8, 8))});
    tape.cross(Event::cross_set, store, second_flag, 2);
    tape.core(2).cross(Event::cross_wait, load, 0, 0);
    tape.work(load, {global(reads(0, 8))});
    tape.cross(Event::cross_wait, load, second_flag, 0);
    tape.work(load, {global(reads(8, 8))});
    return tape;
  };
  EXPECT_EQ(kinds(tape(1), three), Kinds{});
  EXPECT_EQ(kinds(tape(0), three), Kinds{ReportKind::ambiguous_flag});
}

TEST(Flags, UnpairedAndLeftoverFlags) {
  TapeBuilder waits;
  waits.set(load, feed);
  waits.wait(load, feed);
  waits.wait(load, feed);
  EXPECT_EQ(kinds(waits), Kinds{ReportKind::unpaired_wait});
  TapeBuilder sets;
  sets.set(load, feed);
  sets.wait(load, feed);
  sets.set(load, feed, 1);
  EXPECT_EQ(kinds(sets), Kinds{ReportKind::leftover_flag});
}

TEST(Flags, MoreSetsThanTheDeviceHolds) {
  const auto tape = [](bool credit) {
    TapeBuilder tape;
    for (int i = 0; i < 3; ++i) {
      if (credit && i > 0) tape.wait(feed, load, 1);
      tape.set(load, feed);
      tape.wait(load, feed);
      if (credit && i < 2) tape.set(feed, load, 1);
    }
    return tape;
  };
  EXPECT_EQ(kinds(tape(true)), Kinds{});
  const auto reports = check(tape(false).tape, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::flag_overrun});
  EXPECT_EQ(reports.front().repeated, 2u);
  Device deep = one;
  deep.sync.depth = 3;
  EXPECT_EQ(kinds(tape(false), deep), Kinds{});
}

TEST(Flags, IdsThatTheDeviceDoesNotHave) {
  for (const std::uint16_t id : {7, 8}) {
    TapeBuilder tape;
    tape.set(load, feed, id);
    tape.wait(load, feed, id);
    EXPECT_EQ(kinds(tape), id == 7 ? Kinds{} : (Kinds{ReportKind::flag_overrun, ReportKind::flag_overrun}));
  }
}

TEST(Flags, DeadlockNamesWhatEachWaitsFor) {
  TapeBuilder tape;
  tape.wait(feed, load);
  tape.set(load, feed);
  tape.wait(load, feed);
  tape.set(feed, load);
  const auto reports = check(tape.tape, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::deadlock});
  EXPECT_NE(reports.front().message.find("(core 0, load) waits for flag 0 of feed -> load of flags.cpp:"),
            std::string::npos)
      << reports.front().message;
  TapeBuilder lonely(2);
  lonely.core(0).sync_all();
  EXPECT_EQ(kinds(lonely, plain_device(2)), Kinds{ReportKind::deadlock});
  lonely.core(1).sync_all();
  EXPECT_EQ(kinds(lonely, plain_device(2)), Kinds{});
}

}  // namespace
}  // namespace inlay::npu::test
