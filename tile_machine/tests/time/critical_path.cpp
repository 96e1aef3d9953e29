// Critical path, slack and the text of a run.
#include "tile_machine/time/critical_path.hpp"

#include <gtest/gtest.h>

#include "tile_machine/tests/time/logs.hpp"
#include "tile_machine/time/roofline.hpp"

namespace inlay::npu {
namespace {

TEST(CriticalPath, FollowsTheFlagThatBinds) {
  Device device = round_device();
  device.queues[static_cast<int>(Pipe::matrix)].issue_cycles = 2;
  EventWriter log;
  const auto load = log.load(1600);
  const auto set = log.set(Pipe::load, Pipe::matrix, 0);
  log.vector(20);
  const auto wait = log.wait(Pipe::load, Pipe::matrix, 0);
  const auto product = log.mma(16, 16, 160);
  const Timeline time = timed(log.log(), device);
  std::vector<std::uint32_t> entries;
  for (const Link& link : critical_path(log.log(), device, time)) {
    if (link.step == Step::ended) {
      entries.push_back(link.entry);
      EXPECT_EQ(link.reason, Reason::work);
    }
    if (link.entry == wait && link.step == Step::started) {
      EXPECT_EQ(link.reason, Reason::flag);
    }
  }
  EXPECT_EQ(entries, (std::vector<std::uint32_t>{load, set, wait, product}));
}

TEST(CriticalPath, ShowsTheFlightOfAFlag) {
  Device device = round_device();
  device.sync.stream_cycles = 300;
  EventWriter log;
  log.log().streams = {0, 0};
  log.vector(100);
  log.stream_set(Pipe::vector, 0, 0, 1, 0);
  log.on_stream(1);
  const auto wait = log.stream_wait(Pipe::vector, 0, 0, 1, 0);
  log.vector(50);
  const auto path = critical_path(log.log(), device, timed(log.log(), device));
  const auto flight =
      std::find_if(path.begin(), path.end(), [](const Link& link) { return link.reason == Reason::flag; });
  ASSERT_NE(flight, path.end());
  EXPECT_EQ(flight->entry, wait);
  EXPECT_EQ(to_cycles(flight->begin), 100);
  EXPECT_EQ(to_cycles(flight->end), 400);
  EXPECT_EQ(to_cycles(path.back().end), 450);
}

TEST(CriticalPath, IsAChainFromZeroToTheMakespan) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const EventLog log =
        random_log(seed, static_cast<std::uint16_t>(1 + seed % 4), 500, static_cast<std::uint8_t>(1 + seed % 3));
    const Device device = random_device(seed);
    const Timeline time = timed(log, device);
    const auto slack = slacks(log, device, time);
    const auto path = critical_path(log, device, time);
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(path.front().begin, 0);
    EXPECT_EQ(path.back().end, time.makespan);
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (i > 0) {
        EXPECT_EQ(path[i].begin, path[i - 1].end);
      }
      if (path[i].step == Step::ended) {
        EXPECT_EQ(slack[path[i].entry], 0) << "an entry of the path cannot end later";
      }
    }
    for (Tick ticks : slack) EXPECT_GE(ticks, 0);
  }
}

// The definition of slack, tried: so much longer changes nothing, a cycle more moves the makespan by one.
TEST(Slack, IsExactlyWhatAnEntryMayGrow) {
  int grown = 0;
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    const EventLog log = random_log(seed, static_cast<std::uint16_t>(1 + seed % 3), 250);
    Device device = random_device(seed);
    for (Path& path : device.paths) path.half_burst = 0, path.bytes_per_cycle = 1e4;  // whole ticks
    for (Path& path : device.paths) path.dram = false;
    const Timeline time = timed(log, device);
    const auto slack = slacks(log, device, time);
    for (std::uint32_t i = 0; i < log.entries.size(); ++i) {
      if (log.entries[i].work.unit != Unit::vector) continue;
      const std::uint64_t cycles = static_cast<std::uint64_t>(slack[i] / ticks_per_cycle);
      constexpr std::uint64_t elements_of_a_cycle = 16;
      EventLog longer = log;
      longer.entries[i].work.elements += cycles * elements_of_a_cycle;
      EXPECT_EQ(timed(longer, device).makespan, time.makespan);
      longer.entries[i].work.elements += elements_of_a_cycle;
      EXPECT_EQ(timed(longer, device).makespan, time.makespan + ticks_per_cycle - slack[i] % ticks_per_cycle);
      ++grown;
    }
  }
  EXPECT_GT(grown, 100);
}

TEST(RooflineTest, CountsBytesOperationsAndTheBound) {
  Device device = round_device();
  device.dram_bytes_per_cycle = 16;
  EventWriter log(2);
  for (std::uint16_t core = 0; core < 2; ++core) {
    log.load(1600, core);
    log.mma(32, 32, 32, core);
    log.vector(30, core);
  }
  const Roofline roof = roofline(log.log(), device, timed(log.log(), device));
  EXPECT_EQ(roof.bounds[static_cast<int>(Pipe::load)].cycles, 100);
  EXPECT_EQ(roof.bounds[static_cast<int>(Pipe::load)].bytes, 3200u);
  EXPECT_EQ(roof.bounds[static_cast<int>(Pipe::matrix)].operations, 2u * 2 * 32 * 32 * 32);
  EXPECT_EQ(roof.bounds[static_cast<int>(Pipe::vector)].operations, 2u * 30 * 16);
  EXPECT_EQ(roof.bounds[roof.bounding].resource, "global memory");
  EXPECT_EQ(roof.bounds[roof.bounding].cycles, 200);
  EXPECT_EQ(roof.share(), 1);
  EXPECT_EQ(roof.matrix_share(), 8.0 / 200);
}

TEST(Summary, NamesTheBoundAndTheStalls) {
  Device device = round_device();
  EventWriter log;
  log.load(1600);
  log.set(Pipe::load, Pipe::matrix, 0);
  log.wait(Pipe::load, Pipe::matrix, 0);
  log.mma(16, 16, 160);
  const std::string text = summary(log.log(), device, timed(log.log(), device));
  EXPECT_NE(text.find("makespan 110 cycles, 1 cores"), std::string::npos) << text;
  EXPECT_NE(text.find("flag load -> matrix #0 90.9%"), std::string::npos) << text;
  const std::size_t load = text.find("load copy ("), product = text.find("matrix mma (");
  ASSERT_NE(load, std::string::npos) << text;
  EXPECT_NE(text.find(") 90.9%", load), std::string::npos) << text;
  EXPECT_GT(product, load) << "the larger part first";
  EXPECT_NE(text.find("1 of 1 critical, median 0 cycles"), std::string::npos) << text;
}

}  // namespace
}  // namespace inlay::npu
