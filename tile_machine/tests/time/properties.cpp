// Laws of the timing model on random logs and devices. Seeds are fixed: a failure repeats.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tile_machine/tests/time/logs.hpp"
#include "tile_machine/tests/time/recurrence.hpp"
#include "tile_machine/time/roofline.hpp"

namespace inlay::npu {
namespace {

constexpr std::uint32_t runs = 60;
constexpr int entries = 600;

std::uint16_t cores_of(std::uint32_t seed) { return static_cast<std::uint16_t>(1 + seed % 5); }
std::uint8_t streams_of(std::uint32_t seed) { return static_cast<std::uint8_t>(1 + seed / 5 % 3); }  // of a core
EventLog events_of(std::uint32_t seed) { return random_log(seed, cores_of(seed), entries, streams_of(seed)); }

// Ticks of a granule, counted apart: of the bytes of the sums, or of those that move.
Tick granule_of(const Device& device, const Entry& entry, Tick units) {
  if (device.sync.unit_flag_bytes == 0) return units;
  const Work& work = entry.work;
  const std::uint64_t bytes = work.unit == Unit::matrix ? std::uint64_t{4} * work.m * work.n : work.bytes;
  std::uint64_t granules = 0;
  for (std::uint64_t at = 0; at < bytes; at += device.sync.unit_flag_bytes) ++granules;
  return units / static_cast<Tick>(std::max<std::uint64_t>(1, granules));
}

Tick sync_ticks(const Device& device, const Entry& entry) {
  switch (entry.event) {
    case Event::set:
    case Event::stream_set: return to_ticks(device.sync.set_cycles);
    case Event::wait:
    case Event::stream_wait:
    case Event::cross_wait: return to_ticks(device.sync.wait_cycles);
    case Event::barrier:
    case Event::barrier_all: return to_ticks(device.sync.barrier_cycles);
    default: return to_ticks(device.sync.cross_cycles);
  }
}

void expect_same(const std::vector<Span>& spans, const std::vector<Span>& expected) {
  ASSERT_EQ(spans.size(), expected.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    ASSERT_EQ(spans[i].issued, expected[i].issued) << i;
    ASSERT_EQ(spans[i].started, expected[i].started) << i;
    ASSERT_EQ(spans[i].ended, expected[i].ended) << i;
  }
}

// What an estimate leaves out changes no time: its streams issue ahead, and costs of equal works are known.
TEST(TimingProperties, WithoutDetailTheSameTimes) {
  for (std::uint32_t seed = 0; seed < 10 * runs; ++seed) {
    const EventLog log = events_of(seed);
    const Device device = random_device(seed);
    const auto full = time_events(log, device), brief = time_events(log, device, {.detail = false});
    ASSERT_TRUE(full && brief) << seed;
    ASSERT_EQ(brief->makespan, full->makespan) << seed;
    ASSERT_EQ(brief->dram_bytes, full->dram_bytes) << seed;
    ASSERT_EQ(brief->l2_bytes, full->l2_bytes) << seed;
    for (std::size_t i = 0; i < full->lanes.size(); ++i) {
      ASSERT_EQ(brief->lanes[i].busy, full->lanes[i].busy) << seed << ", lane " << i;
      ASSERT_EQ(brief->lanes[i].last_end, full->lanes[i].last_end) << seed << ", lane " << i;
    }
    Device slower = device;
    slower.dram_bytes_per_cycle /= 2;
    slower.dram_bytes_per_cycle_core /= 2;
    const auto again = time_events(log, slower);
    const auto end = makespan_of(log, slower, *brief);
    ASSERT_TRUE(again && end) << seed;
    ASSERT_EQ(*end, again->makespan) << seed;
  }
}

TEST(TimingProperties, UnsharedTimesAreTheRecurrence) {
  for (std::uint32_t seed = 0; seed < runs; ++seed) {
    const EventLog log = events_of(seed);
    const Device device = random_device(seed);
    const Timeline time = timed(log, device, Sharing::none);
    expect_same(time.spans, Recurrence(log, device).spans([&](std::uint32_t i, Tick) -> Recurrence::Parts {
      const Entry& entry = log.entries[i];
      const bool wait = waits(entry.event);
      if (wait) return {.head = sync_ticks(device, entry)};
      if (entry.event != Event::work) return {.rest = sync_ticks(device, entry)};
      const Cost cost = cost_of(device, entry, time.residency.before(i));
      return {cost.head, cost.units, granule_of(device, entry, cost.units)};
    }));
  }
}

TEST(TimingProperties, SharedTimesAreTheRecurrenceOfTheirDurations) {
  for (std::uint32_t seed = 0; seed < runs; ++seed) {
    const EventLog log = events_of(seed);
    const Device device = random_device(seed);
    const Timeline time = timed(log, device);
    expect_same(time.spans, Recurrence(log, device).spans([&](std::uint32_t i, Tick previous) -> Recurrence::Parts {
      const Entry& entry = log.entries[i];
      const bool wait = waits(entry.event);
      if (wait) return {.head = sync_ticks(device, entry)};
      const Tick ended = time.spans[i].ended, started = time.spans[i].started;
      if (entry.event != Event::work) return {.rest = ended - std::max(started, previous)};
      const Cost cost = cost_of(device, entry, time.residency.before(i));
      return {cost.head, ended - std::max(started + cost.head, previous), granule_of(device, entry, cost.units)};
    }));
  }
}

// Max-min by raising one level for all until it binds: slow, in floating point, and nothing of BandwidthShare.
void raise_level(const std::vector<double>& demand, double capacity, std::vector<double>& grant) {
  grant.assign(demand.size(), 0);
  std::vector<std::size_t> open(demand.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
  while (!open.empty() && capacity > 1e-9) {
    double step = capacity / static_cast<double>(open.size());
    for (std::size_t i : open) step = std::min(step, demand[i] - grant[i]);
    for (std::size_t i : open) grant[i] += step;
    capacity -= step * static_cast<double>(open.size());
    open.erase(std::remove_if(open.begin(), open.end(), [&](std::size_t i) { return demand[i] - grant[i] < 1e-9; }),
               open.end());
  }
}

TEST(TimingProperties, EveryTransferMovesItsBytesAtMaxMinRates) {
  for (std::uint32_t seed = 0; seed < runs; ++seed) {
    const EventLog log = events_of(seed);
    Device device = random_device(seed);
    device.l2 = {};  // spans do not say when bytes of the one end and of the other begin
    device.sync.unit_flag_bytes = 0;
    const Timeline time = timed(log, device);
    std::vector<Tick> previous(log.cores * log.streams.size() * pipes);  // end of the transfer before it in its queue
    struct Transfer {
      Tick begin, end;
      double solo, moved = 0;
      std::uint64_t bytes;
      std::uint32_t core;
    };
    std::vector<Transfer> transfers;
    std::vector<Tick> changes;
    for (std::uint32_t i = 0; i < log.entries.size(); ++i) {
      const Entry& entry = log.entries[i];
      const std::size_t stream = entry.core * log.streams.size() + entry.stream;
      Tick& before = previous[stream * pipes + static_cast<std::size_t>(entry.pipe)];
      const Tick behind = std::exchange(before, time.spans[i].ended);
      if (entry.work.unit != Unit::dma || !device.paths[entry.work.path].dram || entry.work.bytes == 0) continue;
      const Path& path = device.paths[entry.work.path];
      const double burst = static_cast<double>(entry.work.bytes) / static_cast<double>(entry.work.runs);
      const double solo =
          std::min(path.bytes_per_cycle * burst / (path.half_burst + burst), device.dram_bytes_per_cycle_core);
      transfers.push_back({.begin = std::max(time.spans[i].started + to_ticks(path.latency), behind),
                           .end = time.spans[i].ended,
                           .solo = solo,
                           .bytes = entry.work.bytes,
                           .core = entry.core});
      changes.push_back(transfers.back().begin);
      changes.push_back(transfers.back().end);
    }
    std::sort(changes.begin(), changes.end());
    for (std::size_t c = 0; c + 1 < changes.size(); ++c) {
      if (changes[c] == changes[c + 1]) continue;
      std::vector<std::vector<Transfer*>> by_core(log.cores);
      for (Transfer& transfer : transfers)
        if (transfer.begin <= changes[c] && transfer.end >= changes[c + 1]) by_core[transfer.core].push_back(&transfer);
      std::vector<double> wanted, granted, solo, rate;
      for (const auto& mine : by_core) {
        double sum = 0;
        for (const Transfer* transfer : mine) sum += transfer->solo;
        wanted.push_back(std::min(sum, device.dram_bytes_per_cycle_core));
      }
      raise_level(wanted, device.dram_bytes_per_cycle, granted);
      for (std::uint32_t core = 0; core < log.cores; ++core) {
        solo.clear();
        for (const Transfer* transfer : by_core[core]) solo.push_back(transfer->solo);
        raise_level(solo, granted[core], rate);
        for (std::size_t i = 0; i < rate.size(); ++i)
          by_core[core][i]->moved += rate[i] * to_cycles(changes[c + 1] - changes[c]);
      }
    }
    // Ends round up to a tick, rates down to 2^-18 byte a cycle.
    for (const Transfer& transfer : transfers)
      ASSERT_NEAR(transfer.moved, static_cast<double>(transfer.bytes),
                  0.2 + 1e-4 * static_cast<double>(transfer.bytes));
  }
}

TEST(TimingProperties, BytesAreConserved) {
  for (std::uint32_t seed = 0; seed < runs; ++seed) {
    const EventLog log = events_of(seed);
    const Device device = random_device(seed);
    for (Sharing sharing : {Sharing::max_min, Sharing::none, Sharing::equal_parts}) {
      const Timeline time = timed(log, device, sharing);
      std::uint64_t moved = 0;
      Traffic known;
      for (std::uint32_t i = 0; i < log.entries.size(); ++i) {
        const Entry& entry = log.entries[i];
        if (entry.work.unit != Unit::dma || !device.paths[entry.work.path].dram) continue;
        moved += entry.work.bytes;
        if (const Traffic* traffic = time.residency.before(i).traffic; traffic != nullptr) {
          known.dram += traffic->dram;
          known.l2 += traffic->l2;
        }
      }
      EXPECT_EQ(time.dram_bytes, device.l2.bytes > 0 ? known.dram : moved);
      EXPECT_EQ(time.l2_bytes, known.l2);
    }
  }
}

TEST(TimingProperties, BusyAndStallsAddUpToTheMakespan) {
  for (std::uint32_t seed = 0; seed < runs; ++seed) {
    const Timeline time = timed(events_of(seed), random_device(seed));
    ASSERT_GT(time.makespan, 0);
    for (const LaneTime& lane : time.lanes) {
      EXPECT_EQ(accounted(lane), time.makespan) << seed << ": core " << lane.core << " queue " << lane.queue;
      EXPECT_LE(lane.busy, time.makespan);
      for (const Stall& stall : lane.stalls) EXPECT_GT(stall.ticks, 0) << name(stall.cause);
    }
  }
}

TEST(TimingProperties, NoBoundIsBeaten) {
  for (std::uint32_t seed = 0; seed < runs; ++seed) {
    const EventLog log = events_of(seed);
    const Device device = random_device(seed);
    for (Sharing sharing : {Sharing::max_min, Sharing::equal_parts}) {
      const Roofline roof = roofline(log, device, timed(log, device, sharing));
      for (const Bound& bound : roof.bounds) EXPECT_LE(bound.cycles, roof.makespan) << bound.resource;
      EXPECT_LE(roof.matrix_share(), 1);
      EXPECT_LE(roof.share(), 1);
      EXPECT_GE(roof.share(), roof.dma_share());
    }
  }
}

TEST(TimingProperties, RunsRepeatAndTheOrderOfCoresOnTheLogIsNothing) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const EventLog log = events_of(seed);
    const Device device = random_device(seed);
    const Timeline time = timed(log, device);
    expect_same(timed(log, device).spans, time.spans);
    EventLog sorted = log;
    std::vector<std::uint32_t> order(log.entries.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return log.entries[a].core > log.entries[b].core; });
    std::vector<Span> expected;
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      sorted.entries[i] = log.entries[order[i]];
      expected.push_back(time.spans[order[i]]);
    }
    expect_same(timed(sorted, device).spans, expected);
  }
}

void expect_no_later(const std::vector<Span>& fast, const std::vector<Span>& slow, const char* what) {
  ASSERT_EQ(fast.size(), slow.size());
  for (std::size_t i = 0; i < fast.size(); ++i) {
    ASSERT_LE(fast[i].issued, slow[i].issued) << what << " " << i;
    ASSERT_LE(fast[i].started, slow[i].started) << what << " " << i;
    ASSERT_LE(fast[i].ended, slow[i].ended) << what << " " << i;
  }
}

TEST(TimingProperties, SharingLiesBetweenItsBounds) {
  for (std::uint32_t seed = 0; seed < runs; ++seed) {
    const EventLog log = events_of(seed);
    const Device device = random_device(seed);
    const auto shared = timed(log, device).spans;
    expect_no_later(timed(log, device, Sharing::none).spans, shared, "none");
    expect_no_later(shared, timed(log, device, Sharing::equal_parts).spans, "equal parts");
  }
}

// Each makes one figure of the device better.
std::vector<Device> improved(const Device& device) {
  std::vector<Device> result;
  const auto with = [&](auto&& change) { change(result.emplace_back(device)); };
  with([](Device& d) { d.dram_bytes_per_cycle *= 1.3; });
  with([](Device& d) { d.dram_bytes_per_cycle_core *= 1.3; });
  with([](Device& d) {
    for (Path& path : d.paths) path.bytes_per_cycle *= 1.7;
  });
  with([](Device& d) {
    for (Path& path : d.paths) path.latency *= 0.5;
  });
  with([](Device& d) { d.paths[local_feed].latency = 0; });
  with([](Device& d) {
    for (Path& path : d.paths) path.half_burst *= 0.5;
  });
  with([](Device& d) {
    for (VectorCost& cost : d.vector.cost) cost.head = 0;
  });
  with([](Device& d) { d.matrix.rates[0].cycles = 0.5; });
  with([](Device& d) { d.scalar.miss_cycles = 0; });
  with([](Device& d) { d.l2.bytes_per_cycle *= 1.3; });
  with([](Device& d) { d.l2.bytes_per_cycle_core *= 1.3; });
  with([](Device& d) { d.l2.latency = 0; });
  with([](Device& d) {
    for (Queue& queue : d.queues) ++queue.outstanding;
  });
  with([](Device& d) { d.sync.wait_cycles = d.sync.cross_cycles = 0; });
  with([](Device& d) { d.sync.stream_cycles *= 0.5; });
  with([](Device& d) {
    for (Queue& queue : d.queues) queue.issue_cycles = 0;
  });
  with([](Device& d) {
    for (Queue& queue : d.queues) queue.depth += 3;
  });
  return result;
}

TEST(TimingProperties, BetterPartsNeverSlowTheBounds) {
  for (std::uint32_t seed = 0; seed < runs / 2; ++seed) {
    const EventLog log = events_of(seed);
    const Device device = random_device(seed);
    for (Sharing sharing : {Sharing::none, Sharing::equal_parts}) {
      const auto before = timed(log, device, sharing).spans;
      for (const Device& better : improved(device)) expect_no_later(timed(log, better, sharing).spans, before, "");
    }
  }
}

// Where no two transfers of global memory can meet, sharing has nothing to share: one core whose only path
// to it is `load`.
TEST(TimingProperties, BetterPartsNeverSlowALoneQueue) {
  for (std::uint32_t seed = 0; seed < runs / 2; ++seed) {
    const EventLog log = random_log(seed, 1, entries);
    Device device = random_device(seed);
    device.paths[dram_load_vector].dram = device.paths[dram_store].dram = false;
    const auto before = timed(log, device).spans;
    for (const Device& better : improved(device)) expect_no_later(timed(log, better).spans, before, "");
  }
}

}  // namespace
}  // namespace inlay::npu
