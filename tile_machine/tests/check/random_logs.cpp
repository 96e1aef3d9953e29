// The checker against the closure of the graph, on random logs; overlap of footprints against sets of bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <set>
#include <vector>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/check/lifetimes.hpp"
#include "tile_machine/tests/check/oracle.hpp"
#include "tile_machine/tests/events/event_log_builder.hpp"

namespace inlay::npu::test {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(engine_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine_); }

 private:
  std::mt19937_64 engine_;
};

Footprint random_footprint(Random& random, std::uint32_t bytes) {
  Footprint footprint;
  footprint.memory = 1;
  footprint.begin = random.below(bytes);
  footprint.runs = random.below(6);
  footprint.run_bytes = random.below(7);
  footprint.stride = random.below(20);
  return footprint;
}

std::set<std::uint64_t> bytes_of(const Footprint& footprint) {
  std::set<std::uint64_t> bytes;
  for (std::uint64_t run = 0; run < footprint.runs; ++run)
    for (std::uint64_t byte = 0; byte < footprint.run_bytes; ++byte)
      bytes.insert(footprint.begin + run * footprint.stride + byte);
  return bytes;
}

TEST(Overlap, EqualsTheIntersectionOfByteSets) {
  Random random(1);
  int met = 0;
  for (int i = 0; i < 200000; ++i) {
    Footprint a = random_footprint(random, 60);
    Footprint b = random_footprint(random, 60);
    if (random.chance(0.3)) b.stride = a.stride;
    const auto left = bytes_of(a), right = bytes_of(b);
    const bool expected = std::any_of(left.begin(), left.end(), [&](std::uint64_t byte) { return right.count(byte); });
    const auto byte = common_byte(runs_of(a), runs_of(b));
    ASSERT_EQ(byte.has_value(), expected) << i;
    if (byte) {
      ASSERT_TRUE(left.count(*byte) && right.count(*byte)) << i;
    }
    met += expected;
  }
  EXPECT_GT(met, 20000);
}

// Pipes share queues, one queue shows its predecessors' effects.
Device random_device(Random& random, std::uint32_t cores) {
  Device device = plain_device(cores);
  for (auto& queue : device.queue_of)
    if (random.chance(0.2)) queue = static_cast<std::uint8_t>(random.below(pipes));
  for (Queue& queue : device.queues) queue.in_order_visible = random.chance(0.2);
  device.sync.depth = 1 + random.below(2);
  device.sync.stream_depth = 1 + random.below(3);
  return device;
}

// A few bytes, a few pipes, cores of one to three streams: entries meet. Flags come in pairs, in either order and
// apart, so that many logs run through; some are lost.
EventLog random_log(Random& random, std::uint16_t cores) {
  EventLogBuilder log(cores);
  const auto streams = static_cast<std::uint8_t>(random.chance(0.5) ? 1 : 2 + random.below(2));
  log.log.streams.assign(streams, 0);
  const auto pipe = [&] { return static_cast<Pipe>(random.below(random.chance(0.5) ? 4 : pipes)); };
  std::vector<std::vector<std::uint32_t>> live(cores * streams);
  struct Owed {
    std::uint16_t core;
    std::uint8_t stream;
    Event event;
    Pipe from, to;
    std::uint16_t flag, peer;
  };
  std::vector<Owed> owed;
  const auto pay = [&](const Owed& due) {
    log.core(due.core, due.stream);
    if (due.event == Event::set) log.set(due.from, due.to, due.flag);
    if (due.event == Event::wait) log.wait(due.from, due.to, due.flag);
    if (due.event == Event::cross_set || due.event == Event::cross_wait)
      log.cross(due.event, due.from, due.flag, due.peer);
    if (due.event == Event::stream_set || due.event == Event::stream_wait)
      log.across(due.event, due.from, due.flag, static_cast<std::uint8_t>(due.peer));
    if (due.event == Event::sync_all) log.sync_all();
  };
  const std::uint32_t length = 5 + random.below(50);
  while (log.log.entries.size() < length) {
    const auto core = static_cast<std::uint16_t>(random.below(cores));
    const auto stream = static_cast<std::uint8_t>(streams == 1 ? 0 : random.below(streams));
    auto& mine = live[core * streams + stream];
    log.core(core, stream);
    const std::uint32_t kind = random.below(100);
    if (kind < 50) {
      std::vector<Access> accesses;
      for (std::uint32_t n = random.below(4); n > 0; --n) {
        const Footprint f = random_footprint(random, 100);
        Access access{random.chance(0.5), f.begin, f.run_bytes, f.runs, f.stride};
        access.memory = random.chance(0.3) ? 0 : 1;
        access.atomic = access.write && random.chance(0.2);
        if (access.memory == 1 && !mine.empty()) {
          access.buffer = mine[random.below(static_cast<std::uint32_t>(mine.size()))];
          access.begin += log.log.buffers[access.buffer].begin / 2;
        }
        accesses.push_back(access);
      }
      log.work(pipe(), accesses);
    } else if (kind < 75) {
      const Pipe from = pipe(), to = pipe();
      const auto flag = static_cast<std::uint16_t>(random.below(2));
      Owed first{core, stream, Event::set, from, to, flag, 0}, second{core, stream, Event::wait, from, to, flag, 0};
      if (streams > 1 && random.chance(0.4)) {  // to another stream, or to itself by the way of others
        const auto peer = static_cast<std::uint8_t>(random.below(streams));
        first = {core, stream, Event::stream_set, from, {}, flag, peer};
        second = {core, peer, Event::stream_wait, to, {}, flag, stream};
      }
      if (random.chance(0.1)) std::swap(first, second);
      pay(first);
      if (!random.chance(0.05)) owed.push_back(second);
    } else if (kind < 80) {
      const auto peer = static_cast<std::uint16_t>(random.below(cores));
      const auto flag = static_cast<std::uint16_t>(random.below(2));
      pay({core, stream, Event::cross_set, pipe(), {}, flag, peer});
      if (!random.chance(0.05)) owed.push_back({peer, stream, Event::cross_wait, pipe(), {}, flag, core});
    } else if (kind < 87) {
      log.barrier(pipe());
    } else if (kind < 89) {
      log.barrier_all();
    } else if (kind < 91) {
      for (std::uint16_t c = 0; c < cores; ++c)
        for (std::uint8_t s = 0; s < streams; ++s) owed.push_back({c, s, Event::sync_all, {}, {}, 0, 0});
    } else if (kind < 96) {
      const std::uint64_t begin = random.below(80);
      mine.push_back(log.allocate(begin, 1 + random.below(40)));
    } else if (!mine.empty()) {
      log.release(mine.back());
      mine.pop_back();
    }
    while (!owed.empty() && random.chance(0.6)) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(owed.size()));
      pay(owed[at]);
      owed.erase(owed.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  for (const Owed& due : owed) pay(due);
  return log.log;
}

struct Found {
  std::set<Oracle::Pair> races;
  std::set<std::uint32_t> unpaired_waits, leftover_sets, overruns, ambiguous, uninitialised;
  bool deadlock = false;
};

Found run_checker(const EventLog& log, const Device& device) {
  Found found;
  const Order order = order_of(log, device);
  for (const Race& race : races(log, device)) found.races.insert({race.first, race.second, race.kind});
  found.unpaired_waits = {order.unpaired_waits.begin(), order.unpaired_waits.end()};
  found.leftover_sets = {order.leftover_sets.begin(), order.leftover_sets.end()};
  found.overruns = {order.overruns.begin(), order.overruns.end()};
  found.deadlock = !order.blocked.empty();
  Clocks clocks(log, device, order);
  Lifetimes lifetimes(log);
  while (clocks.next()) {
    if (!clocks.has_room()) found.overruns.insert(clocks.entry());
    if (!clocks.has_turn()) found.ambiguous.insert(clocks.entry());
    for (const auto& finding : lifetimes.visit(clocks.entry()))
      if (finding.kind == ReportKind::uninitialised_read) found.uninitialised.insert(finding.entry);
  }
  return found;
}

TEST(CheckerAgainstTheClosure, RandomLogs) {
  int ran = 0, stuck = 0, raced = 0, ordered = 0, uninitialised = 0, overran = 0, ambiguous = 0;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    Random random(seed);
    const auto cores = static_cast<std::uint16_t>(1 + random.below(3));
    const Device device = random_device(random, cores);
    const EventLog log = random_log(random, cores);
    const Oracle oracle(log, device);
    const Found found = run_checker(log, device);
    ASSERT_EQ(found.deadlock, oracle.deadlock) << "seed " << seed;
    ASSERT_EQ(found.unpaired_waits, oracle.unpaired_waits) << "seed " << seed;
    ASSERT_EQ(found.leftover_sets, oracle.leftover_sets) << "seed " << seed;
    if (oracle.deadlock) {
      ++stuck;
      continue;
    }
    ++ran;
    ASSERT_EQ(found.races, oracle.races) << "seed " << seed;
    ASSERT_EQ(found.overruns, oracle.overruns) << "seed " << seed;
    ASSERT_EQ(found.ambiguous, oracle.ambiguous) << "seed " << seed;
    ambiguous += static_cast<int>(found.ambiguous.size());
    const auto within = [](const auto& a, const auto& b) {
      return std::includes(b.begin(), b.end(), a.begin(), a.end());
    };
    ASSERT_TRUE(within(oracle.surely_uninitialised, found.uninitialised)) << "seed " << seed;
    ASSERT_TRUE(within(found.uninitialised, oracle.maybe_uninitialised)) << "seed " << seed;
    raced += static_cast<int>(found.races.size());
    ordered += found.races.empty();
    uninitialised += static_cast<int>(found.uninitialised.size());
    overran += static_cast<int>(found.overruns.size());
  }
  std::cout << ran << " logs ran, " << stuck << " hung; " << raced << " races, " << ordered << " logs without, "
            << uninitialised << " uninitialised reads, " << overran << " overruns, " << ambiguous
            << " ambiguous flags\n";
  EXPECT_GT(ran, 5000);
  EXPECT_GT(stuck, 500);
  EXPECT_GT(raced, 20000);
  EXPECT_GT(ordered, 500);
  EXPECT_GT(uninitialised, 500);
  EXPECT_GT(overran, 500);
  EXPECT_GT(ambiguous, 100);
}

}  // namespace
}  // namespace inlay::npu::test
