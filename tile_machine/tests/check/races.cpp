// Races on hand-made logs, each with a twin that differs by one entry and is silent.
#include <gtest/gtest.h>

#include <string>

#include "tile_machine/tests/check/report_kinds.hpp"

namespace inlay::npu::test {
namespace {

using enum Pipe;

TEST(Races, AnEmptyLogIsSilent) { EXPECT_TRUE(check(EventLog{}, one).empty()); }

TEST(Races, ReadAfterWriteNamesBothLinesAndTheMissingFlag) {
  EventLogBuilder log;
  const int written = __LINE__ + 1;
  log.work(load, {writes(0, 64)});
  log.work(feed, {reads(32, 64)});
  const auto reports = check(log.log, one);
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
EventLogBuilder two_accesses(Access first, Access second, bool sync) {
  EventLogBuilder log;
  log.work(load, {first});
  if (sync) log.set(load, feed);
  if (sync) log.wait(load, feed);
  log.work(feed, {second});
  return log;
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
  EventLogBuilder log;
  log.set(load, feed);
  log.work(load, {writes(0, 8)});
  log.wait(load, feed);
  log.work(feed, {reads(0, 8)});
  EXPECT_EQ(kinds(log), Kinds{ReportKind::race_raw});
}

TEST(Races, AFlagOfAnotherIdOrDirectionDoesNotOrderIt) {
  EventLogBuilder log;
  log.work(load, {writes(0, 8)});
  log.set(load, feed, 0);
  log.set(load, feed, 1);
  log.set(load, matrix, 0);
  log.wait(load, matrix, 0);
  log.work(feed, {reads(0, 8)});
  log.wait(load, feed, 0);
  log.wait(load, feed, 1);
  EXPECT_EQ(kinds(log), Kinds{ReportKind::race_raw});
}

TEST(Races, OrderIsTransitiveOverQueues) {
  EventLogBuilder log;
  log.work(load, {writes(0, 8)});
  log.set(load, feed);
  log.wait(load, feed);
  log.set(feed, matrix);
  log.wait(feed, matrix);
  log.work(matrix, {reads(0, 8)});
  EXPECT_EQ(kinds(log), Kinds{});
}

TEST(Races, OneQueueNeedsABarrierUnlessItsEntriesSeeTheirPredecessors) {
  const auto log = [](bool barrier) {
    EventLogBuilder log;
    log.work(vector, {writes(0, 8)});
    if (barrier) log.barrier(vector);
    log.work(vector, {reads(0, 8)});
    return log;
  };
  EXPECT_EQ(kinds(log(false)), Kinds{ReportKind::race_raw});
  EXPECT_EQ(check(log(false).log, one).front().missing, "barrier(vector)");
  EXPECT_EQ(kinds(log(true)), Kinds{});
  Device interlocked = one;
  interlocked.queues[static_cast<std::size_t>(vector)].in_order_visible = true;
  EXPECT_EQ(kinds(log(false), interlocked), Kinds{});
}

TEST(Races, ABarrierOfAnotherPipeDoesNotOrder) {
  EventLogBuilder log;
  log.work(vector, {writes(0, 8)});
  log.barrier(matrix);
  log.work(vector, {reads(0, 8)});
  EXPECT_EQ(kinds(log), Kinds{ReportKind::race_raw});
}

TEST(Races, BarrierAllOrdersTheWholeCore) {
  EventLogBuilder log;
  log.work(load, {writes(0, 8)});
  log.barrier_all();
  log.work(feed, {reads(0, 8)});
  log.work(load, {writes(8, 8)});
  log.work(feed, {reads(8, 8)});
  EXPECT_EQ(kinds(log), Kinds{ReportKind::race_raw});  // only the second pair
}

TEST(Races, TheStreamIsAQueueThatOrdersWhatItIssues) {
  const auto log = [](bool wait) {
    EventLogBuilder log;
    log.work(vector, {writes(0, 8)});
    if (wait) log.set(vector, scalar);
    if (wait) log.wait(vector, scalar);
    log.work(scalar, {reads(0, 8)});
    log.work(store, {writes(0, 8)});  // after the scalar read; after the vector write only with the wait
    return log;
  };
  EXPECT_EQ(kinds(log(true)), Kinds{});
  EXPECT_EQ(kinds(log(false)), (Kinds{ReportKind::race_raw, ReportKind::race_waw}));
}

TEST(Races, AtomicAddsDoNotRaceWithEachOther) {
  Access add = writes(0, 8);
  add.atomic = true;
  EXPECT_EQ(kinds(two_accesses(add, add, false)), Kinds{});
  EXPECT_EQ(kinds(two_accesses(add, reads(0, 8), false)), Kinds{ReportKind::race_raw});
}

TEST(Races, AWaitMayBeIssuedBeforeItsSet) {
  EventLogBuilder log;
  log.wait(load, feed);
  log.work(feed, {reads(0, 8)});
  log.work(load, {writes(0, 8)});
  log.set(load, feed);
  EXPECT_EQ(kinds(log), Kinds{});
  // What the stream learns later does not help an entry that it issued earlier.
  EventLogBuilder late(2);
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
  const auto log = [](bool global_memory, bool sync, bool cross) {
    EventLogBuilder log(2);
    const Access write = writes(0, 8), read = reads(0, 8);
    log.core(0).work(store, {global_memory ? global(write) : write});
    if (cross) log.cross(Event::cross_set, store, 3, 1);
    if (sync) log.sync_all();
    log.core(1);
    if (sync) log.sync_all();
    if (cross) log.cross(Event::cross_wait, load, 3, 0);
    log.work(load, {global_memory ? global(read) : read});
    return log;
  };
  EXPECT_EQ(kinds(log(false, false, false), two), Kinds{});
  EXPECT_EQ(kinds(log(true, false, false), two), Kinds{ReportKind::core_overlap});
  EXPECT_EQ(kinds(log(true, true, false), two), Kinds{});
  EXPECT_EQ(kinds(log(true, false, true), two), Kinds{});
}

TEST(Races, OnePairOfLinesIsOneReport) {
  EventLogBuilder log;
  for (int i = 0; i < 5; ++i) {
    log.work(load, {writes(static_cast<std::uint64_t>(16 * i), 16)});
    log.work(feed, {reads(static_cast<std::uint64_t>(16 * i), 16)});
  }
  const auto reports = check(log.log, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::race_raw});
  EXPECT_EQ(reports.front().repeated, 5u);
}

}  // namespace
}  // namespace inlay::npu::test
