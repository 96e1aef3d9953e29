// The checker on hand-made logs that allocate: bytes read before a write, uses after release, two owners of a place.
#include <gtest/gtest.h>

#include "tile_machine/tests/check/report_kinds.hpp"

namespace inlay::npu::test {
namespace {

using enum Pipe;

TEST(Lifetimes, ReadsOfBytesThatNothingWrote) {
  const auto log = [](std::uint64_t written) {
    EventLogBuilder log;
    const std::uint32_t buffer = log.allocate(128, 64);
    log.work(load, {of(buffer, writes(128, written))});
    log.set(load, feed);
    log.wait(load, feed);
    log.work(feed, {of(buffer, reads(128, 64))});
    return log;
  };
  EXPECT_EQ(kinds(log(64)), Kinds{});
  const auto reports = check(log(63).log, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::uninitialised_read});
  EXPECT_NE(reports.front().message.find("byte 63 of 'buffer' in SRAM"), std::string::npos) << reports.front().message;
}

TEST(Lifetimes, ANewAllocationStartsUnwritten) {
  EventLogBuilder log;
  const std::uint32_t first = log.allocate(0, 64);
  log.work(vector, {of(first, writes(0, 64))});
  log.barrier(vector);
  log.release(first);
  const std::uint32_t second = log.allocate(0, 64);
  log.work(vector, {of(second, reads(0, 64))});
  EXPECT_EQ(kinds(log), Kinds{ReportKind::uninitialised_read});
}

TEST(Lifetimes, UseAfterRelease) {
  const auto log = [](bool early) {
    EventLogBuilder log;
    const std::uint32_t buffer = log.allocate(0, 64);
    if (early) log.release(buffer);
    log.work(vector, {of(buffer, writes(0, 64))});
    if (!early) log.release(buffer);
    return log;
  };
  EXPECT_EQ(kinds(log(true)), Kinds{ReportKind::use_after_release});
  EXPECT_EQ(kinds(log(false)), Kinds{});
}

TEST(Lifetimes, MemoryGivenBackWhileItIsInUseRacesWithItsNextOwner) {
  EventLogBuilder log;
  const std::uint32_t first = log.allocate(0, 64);
  log.work(load, {of(first, writes(0, 64))});
  log.release(first);
  const std::uint32_t second = log.allocate(0, 64);
  log.work(vector, {of(second, writes(0, 64))});
  EXPECT_EQ(kinds(log), Kinds{ReportKind::race_waw});
}

TEST(Lifetimes, AllocationsInOnePlace) {
  for (const std::uint64_t begin : {63, 64}) {
    EventLogBuilder log;
    log.allocate(0, 64);
    log.allocate(begin, 64);
    EXPECT_EQ(kinds(log), begin == 63 ? Kinds{ReportKind::capacity} : Kinds{});
  }
  EventLogBuilder cores(2);
  cores.core(0).allocate(0, 64);
  cores.core(1).allocate(0, 64);
  EXPECT_EQ(kinds(cores, plain_device(2)), Kinds{});
}

}  // namespace
}  // namespace inlay::npu::test
