// Races on hand-made tapes, each with a twin that differs by one entry and is silent.
#include <gtest/gtest.h>

#include <string>

#include "tile_machine/tests/check/report_kinds.hpp"

namespace inlay::npu::test {
namespace {

using enum Pipe;

TEST(Races, AnEmptyTapeIsSilent) { EXPECT_TRUE(check(Tape{}, one).empty()); }

TEST(Races, ReadAfterWriteNamesBothLinesAndTheMissingFlag) {
  TapeBuilder tape;
  const int written = __LINE__ + 1;
  tape.work(load, {writes(0, 64)});
  tape.work(feed, {reads(32, 64)});
  const auto reports = check(tape.tape, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::race_raw});
  const Report& race = reports.front();
  EXPECT_EQ(race.first.site.line(), static_cast<unsigned>(written));
  EXPECT_EQ(race.second.site.line(), static_cast<unsigned>(written + 1));
  EXPECT_EQ(race.first.pipe, load);
  EXPECT_EQ(race.second.pipe, feed);
  EXPECT_EQ(race.missing, "set/wait(load, feed)");
  const std::string from = "races.cpp:" + std::to_string(written), to = "races.cpp:" + std::to_string(written + 1);
  EXPECT_EQ(race.message, to + " work (core 0, feed) reads byte 32, which " + from +
                              " work (core 0, load) writes before; no set(load, feed, id) after " + from +
                              " has its wait before " + to);
}

// Twins: `sync` puts the flag where it belongs.
TapeBuilder two_accesses(Access first, Access second, bool sync) {
  TapeBuilder tape;
  tape.work(load, {first});
  if (sync) tape.set(load, feed);
  if (sync) tape.wait(load, feed);
  tape.work(feed, {second});
  return tape;
}

TEST(Races, EachKindOfRaceAndItsTwin) {
  EXPECT_EQ(kinds(two_accesses(writes(0, 8), reads(7, 8), false)), Kinds{ReportKind::race_raw});
  EXPECT_EQ(kinds(two_accesses(reads(0, 8), writes(7, 8), false)), Kinds{ReportKind::race_war});
  EXPECT_EQ(kinds(two_accesses(writes(0, 8), writes(7, 8), false)), Kinds{ReportKind::race_waw});
  EXPECT_EQ(kinds(two_accesses(reads(0, 8), reads(7, 8), false)), Kinds{});
  EXPECT_EQ(kinds(two_accesses(writes(0, 8), reads(8, 8), false)), Kinds{});
  for (const Access first : {reads(0, 8), writes(0, 8)})
    for (const Access second : {reads(0, 8), writes(0, 8)})
      EXPECT_EQ(kinds(two_accesses(first, second, true)), Kinds{});
}

TEST(Races, BoundingBoxesThatMeetAreNoRace) {
  // Two columns of one matrix with rows of 64 bytes.
  EXPECT_EQ(kinds(two_accesses(writes(0, 16, 32, 64), reads(16, 16, 32, 64), false)), Kinds{});
  EXPECT_EQ(kinds(two_accesses(writes(0, 17, 32, 64), reads(16, 16, 32, 64), false)), Kinds{ReportKind::race_raw});
  // Strides 48 and 64 meet at byte 192 only.
  EXPECT_EQ(kinds(two_accesses(writes(0, 1, 8, 48), reads(64, 1, 2, 64), false)), Kinds{});
  EXPECT_EQ(kinds(two_accesses(writes(0, 1, 8, 48), reads(64, 1, 3, 64), false)), Kinds{ReportKind::race_raw});
}

TEST(Races, AFlagBeforeTheAccessDoesNotOrderIt) {
  TapeBuilder tape;
  tape.set(load, feed);
  tape.work(load, {writes(0, 8)});
  tape.wait(load, feed);
  tape.work(feed, {reads(0, 8)});
  EXPECT_EQ(kinds(tape), Kinds{ReportKind::race_raw});
}

TEST(Races, AFlagOfAnotherIdOrDirectionDoesNotOrderIt) {
  TapeBuilder tape;
  tape.work(load, {writes(0, 8)});
  tape.set(load, feed, 0);
  tape.set(load, feed, 1);
  tape.set(load, matrix, 0);
  tape.wait(load, matrix, 0);
  tape.work(feed, {reads(0, 8)});
  tape.wait(load, feed, 0);
  tape.wait(load, feed, 1);
  EXPECT_EQ(kinds(tape), Kinds{ReportKind::race_raw});
}

TEST(Races, OrderIsTransitiveOverQueues) {
  TapeBuilder tape;
  tape.work(load, {writes(0, 8)});
  tape.set(load, feed);
  tape.wait(load, feed);
  tape.set(feed, matrix);
  tape.wait(feed, matrix);
  tape.work(matrix, {reads(0, 8)});
  EXPECT_EQ(kinds(tape), Kinds{});
}

TEST(Races, OneQueueNeedsABarrierUnlessItsEntriesSeeTheirPredecessors) {
  const auto tape = [](bool barrier) {
    TapeBuilder tape;
    tape.work(vector, {writes(0, 8)});
    if (barrier) tape.barrier(vector);
    tape.work(vector, {reads(0, 8)});
    return tape;
  };
  EXPECT_EQ(kinds(tape(false)), Kinds{ReportKind::race_raw});
  EXPECT_EQ(check(tape(false).tape, one).front().missing, "barrier(vector)");
  EXPECT_EQ(kinds(tape(true)), Kinds{});
  Device interlocked = one;
  interlocked.queues[static_cast<std::size_t>(vector)].in_order_visible = true;
  EXPECT_EQ(kinds(tape(false), interlocked), Kinds{});
}

TEST(Races, ABarrierOfAnotherPipeDoesNotOrder) {
  TapeBuilder tape;
  tape.work(vector, {writes(0, 8)});
  tape.barrier(matrix);
  tape.work(vector, {reads(0, 8)});
  EXPECT_EQ(kinds(tape), Kinds{ReportKind::race_raw});
}

TEST(Races, BarrierAllOrdersTheWholeCore) {
  TapeBuilder tape;
  tape.work(load, {writes(0, 8)});
  tape.barrier_all();
  tape.work(feed, {reads(0, 8)});
  tape.work(load, {writes(8, 8)});
  tape.work(feed, {reads(8, 8)});
  EXPECT_EQ(kinds(tape), Kinds{ReportKind::race_raw});  // only the second pair
}

TEST(Races, TheStreamIsAQueueThatOrdersWhatItIssues) {
  const auto tape = [](bool wait) {
    TapeBuilder tape;
    tape.work(vector, {writes(0, 8)});
    if (wait) tape.set(vector, scalar);
    if (wait) tape.wait(vector, scalar);
    tape.work(scalar, {reads(0, 8)});
    tape.work(store, {writes(0, 8)});  // after the scalar read; after the vector write only with the wait
    return tape;
  };
  EXPECT_EQ(kinds(tape(true)), Kinds{});
  EXPECT_EQ(kinds(tape(false)), (Kinds{ReportKind::race_raw, ReportKind::race_waw}));
}

TEST(Races, AtomicAddsDoNotRaceWithEachOther) {
  Access add = writes(0, 8);
  add.atomic = true;
  EXPECT_EQ(kinds(two_accesses(add, add, false)), Kinds{});
  EXPECT_EQ(kinds(two_accesses(add, reads(0, 8), false)), Kinds{ReportKind::race_raw});
}

TEST(Races, AWaitMayBeIssuedBeforeItsSet) {
  TapeBuilder tape;
  tape.wait(load, feed);
  tape.work(feed, {reads(0, 8)});
  tape.work(load, {writes(0, 8)});
  tape.set(load, feed);
  EXPECT_EQ(kinds(tape), Kinds{});
  // What the stream learns later does not help an entry that it issued earlier.
  TapeBuilder late(2);
  late.cross(Event::cross_wait, feed, 0, 1);
  late.work(feed, {reads(64, 8)});
  late.work(vector, {writes(64, 8)});
  late.set(vector, scalar);
  late.wait(vector, scalar);
  late.core(1).cross(Event::cross_set, load, 0, 0);
  EXPECT_EQ(kinds(late, plain_device(2)), Kinds{ReportKind::race_war});
}

TEST(Races, CoresMeetInGlobalMemoryOnly) {
  const Device two = plain_device(2);
  const auto tape = [](bool global_memory, bool sync, bool cross) {
    TapeBuilder tape(2);
    const Access write = writes(0, 8), read = reads(0, 8);
    tape.core(0).work(store, {global_memory ? global(write) : write});
    if (cross) tape.cross(Event::cross_set, store, 3, 1);
    if (sync) tape.sync_all();
    tape.core(1);
    if (sync) tape.sync_all();
    if (cross) tape.cross(Event::cross_wait, load, 3, 0);
    tape.work(load, {global_memory ? global(read) : read});
    return tape;
  };
  EXPECT_EQ(kinds(tape(false, false, false), two), Kinds{});
  EXPECT_EQ(kinds(tape(true, false, false), two), Kinds{ReportKind::core_overlap});
  EXPECT_EQ(kinds(tape(true, true, false), two), Kinds{});
  EXPECT_EQ(kinds(tape(true, false, true), two), Kinds{});
}

TEST(Races, OnePairOfLinesIsOneReport) {
  TapeBuilder tape;
  for (int i = 0; i < 5; ++i) {
    tape.work(load, {writes(static_cast<std::uint64_t>(16 * i), 16)});
    tape.work(feed, {reads(static_cast<std::uint64_t>(16 * i), 16)});
  }
  const auto reports = check(tape.tape, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::race_raw});
  EXPECT_EQ(reports.front().repeated, 5u);
}

}  // namespace
}  // namespace inlay::npu::test
