// The checker on hand-made tapes that allocate: bytes read before a write, uses after release, two owners of a place.
#include <gtest/gtest.h>

#include "tile_machine/tests/check/report_kinds.hpp"

namespace inlay::npu::test {
namespace {

using enum Pipe;

TEST(Lifetimes, ReadsOfBytesThatNothingWrote) {
  const auto tape = [](std::uint64_t written) {
    TapeBuilder tape;
    const std::uint32_t buffer = tape.allocate(128, 64);
    tape.work(load, {of(buffer, writes(128, written))});
    tape.set(load, feed);
    tape.wait(load, feed);
    tape.work(feed, {of(buffer, reads(128, 64))});
    return tape;
  };
  EXPECT_EQ(kinds(tape(64)), Kinds{});
  const auto reports = check(tape(63).tape, one);
  ASSERT_EQ(kinds(reports), Kinds{ReportKind::uninitialised_read});
  EXPECT_NE(reports.front().message.find("byte 63 of 'buffer' in SRAM"), std::string::npos) << reports.front().message;
}

TEST(Lifetimes, ANewAllocationStartsUnwritten) {
  TapeBuilder tape;
  const std::uint32_t first = tape.allocate(0, 64);
  tape.work(vector, {of(first, writes(0, 64))});
  tape.barrier(vector);
  tape.release(first);
  const std::uint32_t second = tape.allocate(0, 64);
  tape.work(vector, {of(second, reads(0, 64))});
  EXPECT_EQ(kinds(tape), Kinds{ReportKind::uninitialised_read});
}

TEST(Lifetimes, UseAfterRelease) {
  const auto tape = [](bool early) {
    TapeBuilder tape;
    const std::uint32_t buffer = tape.allocate(0, 64);
    if (early) tape.release(buffer);
    tape.work(vector, {of(buffer, writes(0, 64))});
    if (!early) tape.release(buffer);
    return tape;
  };
  EXPECT_EQ(kinds(tape(true)), Kinds{ReportKind::use_after_release});
  EXPECT_EQ(kinds(tape(false)), Kinds{});
}

TEST(Lifetimes, MemoryGivenBackWhileItIsInUseRacesWithItsNextOwner) {
  TapeBuilder tape;
  const std::uint32_t first = tape.allocate(0, 64);
  tape.work(load, {of(first, writes(0, 64))});
  tape.release(first);
  const std::uint32_t second = tape.allocate(0, 64);
  tape.work(vector, {of(second, writes(0, 64))});
  EXPECT_EQ(kinds(tape), Kinds{ReportKind::race_waw});
}

TEST(Lifetimes, AllocationsInOnePlace) {
  for (const std::uint64_t begin : {63, 64}) {
    TapeBuilder tape;
    tape.allocate(0, 64);
    tape.allocate(begin, 64);
    EXPECT_EQ(kinds(tape), begin == 63 ? Kinds{ReportKind::capacity} : Kinds{});
  }
  TapeBuilder cores(2);
  cores.core(0).allocate(0, 64);
  cores.core(1).allocate(0, 64);
  EXPECT_EQ(kinds(cores, plain_device(2)), Kinds{});
}

}  // namespace
}  // namespace inlay::npu::test
