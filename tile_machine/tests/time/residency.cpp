// What the L2 has, against a cache of lines written apart: lists and sets, one line at a time, streams by a search.
#include "tile_machine/time/residency.hpp"

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <set>

#include "tile_machine/tests/time/logs.hpp"

namespace inlay::npu {
namespace {

constexpr std::uint64_t page_lines = 64;

// round_device() with a cache of `pages` pages of 64-byte lines.
Device cached_device(std::uint64_t pages) {
  Device device = round_device();
  device.l2 = {.bytes = pages * page_lines * 64,
               .line = 64,
               .bytes_per_cycle = 4096,
               .bytes_per_cycle_core = 64,
               .latency = 0,
               .hints = true};
  return device;
}

struct Access {
  std::uint64_t begin, run_bytes, runs = 1, stride = 0;
  bool write = false, streamed = false;
  std::uint32_t buffer = 0;
};

std::uint32_t add(EventWriter& log, const Access& access, std::uint16_t core = 0) {
  EventLog& out = log.log();
  const std::uint32_t entry = access.write
                                  ? log.dma(Pipe::store, dram_store, access.run_bytes * access.runs, access.runs, core)
                                  : log.dma(Pipe::load, dram_load, access.run_bytes * access.runs, access.runs, core);
  log.entry(entry).footprints = static_cast<std::uint32_t>(out.footprints.size());
  log.entry(entry).footprint_count = 1;
  out.footprints.push_back({.memory = 0,
                            .write = access.write,
                            .buffer = access.buffer,
                            .begin = access.begin,
                            .runs = static_cast<std::uint32_t>(access.runs),
                            .run_bytes = access.run_bytes,
                            .stride = access.stride,
                            .streamed = access.streamed});
  return entry;
}

void buffers(EventWriter& log) {  // 0: outlives the run, 1: a workspace
  log.log().buffers = {{.name = "result"}, {.name = "workspace", .workspace = true}};
}

Traffic of(const EventWriter& log, const Device& device, std::uint32_t entry) {
  EventWriter copy = log;
  const auto order = EventOrder::of(copy.log(), device);
  return order ? *Residency(copy.log(), device, *order).before(entry).traffic : Traffic{};
}

TEST(Residency, WhatWasReadIsThereUntilOthersPushItOut) {
  EventWriter log;
  const auto first = add(log, {.begin = 0, .run_bytes = 4096});
  const auto again = add(log, {.begin = 0, .run_bytes = 4096});
  const auto other = add(log, {.begin = 4096, .run_bytes = 4096});
  const auto third = add(log, {.begin = 8192, .run_bytes = 4096});
  const auto late = add(log, {.begin = 0, .run_bytes = 4096});
  const Device two = cached_device(2);
  EXPECT_EQ(of(log, two, first).dram, 4096u);
  EXPECT_EQ(of(log, two, again).l2, 4096u);
  EXPECT_EQ(of(log, two, again).dram, 0u);
  EXPECT_EQ(of(log, two, other).dram, 4096u);
  EXPECT_EQ(of(log, two, third).dram, 4096u);
  EXPECT_EQ(of(log, two, late).dram, 4096u) << "the least recent page made room";
  EXPECT_EQ(of(log, cached_device(3), late).l2, 4096u);
}

TEST(Residency, OnlyTheLinesThatWereReadAreThere) {
  EventWriter log;
  add(log, {.begin = 0, .run_bytes = 64, .runs = 16, .stride = 256});
  const auto beside = add(log, {.begin = 64, .run_bytes = 64, .runs = 16, .stride = 256});
  const auto both = add(log, {.begin = 0, .run_bytes = 128, .runs = 16, .stride = 256});
  const Device device = cached_device(8);
  EXPECT_EQ(of(log, device, beside).dram, 16u * 64);
  EXPECT_EQ(of(log, device, both).l2, 16u * 128);
}

TEST(Residency, AWorkspaceCostsNothingAndAResultIsWrittenBackOnce) {
  EventWriter log;
  buffers(log);
  const auto spill = add(log, {.begin = 8192, .run_bytes = 4096, .write = true, .buffer = 1});
  const auto fill = add(log, {.begin = 8192, .run_bytes = 4096, .buffer = 1});
  const auto result = add(log, {.begin = 0, .run_bytes = 4096, .write = true});
  const auto rewrite = add(log, {.begin = 0, .run_bytes = 4096, .write = true});
  const Device device = cached_device(8);
  EXPECT_EQ(of(log, device, spill).dram, 0u);
  EXPECT_EQ(of(log, device, fill).dram, 0u);
  EXPECT_EQ(of(log, device, result).dram, 4096u);
  EXPECT_EQ(of(log, device, rewrite).dram, 0u) << "it was dirty, and goes once";
}

TEST(Residency, AWorkspaceThatIsPushedOutIsWrittenBackByWhoPushes) {
  EventWriter log;
  buffers(log);
  add(log, {.begin = 0, .run_bytes = 4096, .write = true, .buffer = 1});
  const auto pusher = add(log, {.begin = 4096, .run_bytes = 4096});
  const auto back = add(log, {.begin = 0, .run_bytes = 4096, .buffer = 1});
  const Device one = cached_device(1);
  EXPECT_EQ(of(log, one, pusher).dram, 8192u);
  EXPECT_EQ(of(log, one, back).dram, 4096u);
}

TEST(Residency, WhatIsStreamedPushesNothingOut) {
  const auto kept = [](bool streamed, bool hints) {
    EventWriter log;
    add(log, {.begin = 0, .run_bytes = 4096});
    add(log, {.begin = 4096, .run_bytes = 8 * 4096, .streamed = streamed});
    const auto again = add(log, {.begin = 0, .run_bytes = 4096});
    Device device = cached_device(4);
    device.l2.hints = hints;
    return of(log, device, again).l2;
  };
  EXPECT_EQ(kept(false, true), 0u);
  EXPECT_EQ(kept(true, true), 4096u);
  EXPECT_EQ(kept(true, false), 0u) << "the device has no such hint";
}

// The rules of residency.hpp, one line at a time.
class Oracle {
 public:
  Oracle(const EventLog& log, const Device& device) : log_(log), device_(device) {}

  std::map<std::uint32_t, Traffic> traffic() {
    std::map<std::uint32_t, Traffic> result;
    const std::size_t of_a_core = log_.streams.size(), count = log_.cores * of_a_core;
    std::vector<std::vector<std::uint32_t>> entries(count);
    for (std::uint32_t i = 0; i < log_.entries.size(); ++i)
      if (matters(i)) entries[log_.entries[i].core * of_a_core + log_.entries[i].stream].push_back(i);
    std::vector<std::size_t> next(count);
    std::vector<std::uint64_t> moved(count);
    const auto stands_at = [&](std::size_t stream, Event event) {
      return next[stream] < entries[stream].size() && log_.entries[entries[stream][next[stream]]].event == event;
    };
    for (;;) {
      // Streams that stand before a sync_all wait for all others, those before a flag for its set.
      std::size_t meet = 0, least = count;
      for (std::size_t stream = 0; stream < count; ++stream) {
        meet += stands_at(stream, Event::sync_all);
        if (next[stream] == entries[stream].size() || stands_at(stream, Event::sync_all)) continue;
        const Entry& entry = log_.entries[entries[stream][next[stream]]];
        if (entry.event == Event::stream_wait && sets_.count(entry.flag) == 0) continue;
        if (least == count || moved[stream] < moved[least]) least = stream;
      }
      if (meet == count) {
        const std::uint64_t most = *std::max_element(moved.begin(), moved.end());
        for (std::size_t stream = 0; stream < count; ++stream) {
          ++next[stream];
          moved[stream] = most;
        }
        continue;
      }
      if (least == count) return result;
      // Its flags, up to its next transfer.
      while (next[least] < entries[least].size() && !stands_at(least, Event::sync_all)) {
        const std::uint32_t index = entries[least][next[least]];
        const Entry& entry = log_.entries[index];
        if (entry.event == Event::stream_wait && sets_.count(entry.flag) == 0) break;
        ++next[least];
        if (entry.event == Event::stream_set) sets_[entry.flag] = moved[least];
        if (entry.event == Event::stream_wait) moved[least] = std::max(moved[least], sets_[entry.flag]);
        if (entry.event != Event::work) continue;
        result[index] = transfer(entry);
        moved[least] += entry.work.bytes;
        break;
      }
    }
  }

 private:
  bool matters(std::uint32_t i) const {
    const Entry& entry = log_.entries[i];
    return entry.event != Event::work || entry.work.bytes > 0;
  }

  Traffic transfer(const Entry& entry) {
    Traffic traffic;
    const Footprint& at = log_.footprints[entry.footprints];
    std::set<std::uint64_t> seen;
    std::vector<std::uint64_t> order;
    for (std::uint64_t run = 0; run < at.runs; ++run)
      for (std::uint64_t byte = 0; byte < at.run_bytes; ++byte) {
        const std::uint64_t line = (at.begin + run * at.stride + byte) / device_.l2.line;
        if (seen.insert(line).second) order.push_back(line);
      }
    for (std::uint64_t line : order) touch(line, at, traffic);
    return traffic;
  }

  void touch(std::uint64_t line, const Footprint& at, Traffic& traffic) {
    const std::uint64_t page = line / page_lines, bytes = device_.l2.line;
    const bool outlives = !log_.buffers[at.buffer].workspace;
    if (at.streamed) {
      if (!at.write && lines_.count(line) > 0) {
        use(page);
        traffic.l2 += bytes;
      } else {
        if (!at.write && pages_.end() != std::find(pages_.begin(), pages_.end(), page)) use(page);
        traffic.dram += bytes;
      }
      return;
    }
    use(page);
    const bool there = !lines_.insert(line).second;
    if (!at.write) {
      (there ? traffic.l2 : traffic.dram) += bytes;
    } else {
      const bool fresh = dirty_.insert(line).second;
      (fresh && outlives ? traffic.dram : traffic.l2) += bytes;
      if (fresh && !outlives) owed_.insert(line);
    }
    while (lines_.size() * bytes > device_.l2.bytes && pages_.size() > 1) push_out(traffic);
  }

  void use(std::uint64_t page) {
    pages_.remove(page);
    pages_.push_back(page);
  }
  void push_out(Traffic& traffic) {
    const std::uint64_t page = pages_.front();
    pages_.pop_front();
    for (std::uint64_t line = page * page_lines; line < (page + 1) * page_lines; ++line) {
      lines_.erase(line);
      dirty_.erase(line);
      if (owed_.erase(line) > 0) traffic.dram += device_.l2.line;
    }
  }

  const EventLog& log_;
  const Device& device_;
  std::list<std::uint64_t> pages_;  // the most recent one last
  std::set<std::uint64_t> lines_, dirty_, owed_;
  std::map<std::uint16_t, std::uint64_t> sets_;  // by flag: what its stream had moved
};

TEST(Residency, IsThatOfTheOracleOnRandomLogs) {
  std::uint64_t hits = 0, writes_back = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    const auto cores = static_cast<std::uint16_t>(1 + seed % 4);
    const auto streams = static_cast<std::uint8_t>(1 + seed / 4 % 3);
    EventWriter log(cores);
    log.log().streams.assign(streams, 0);
    buffers(log);
    struct Set {
      std::uint16_t core, flag;
      std::uint8_t from, to;
    };
    std::vector<Set> pending;
    std::uint16_t flags = 0;
    for (int i = 0; i < 150; ++i) {
      if (below(20) == 0) {
        for (std::uint16_t core = 0; core < cores; ++core)
          for (std::uint8_t stream = 0; stream < streams; ++stream) {
            log.on_stream(stream);
            log.stream(Event::sync_all, core, "sync_all");
          }
        continue;
      }
      const auto core = static_cast<std::uint16_t>(below(cores));
      const auto stream = static_cast<std::uint8_t>(below(streams)), other = static_cast<std::uint8_t>(below(streams));
      if (stream != other && below(3) == 0) {
        pending.push_back({core, flags++, stream, other});
        log.stream_set(Pipe::load, core, stream, other, pending.back().flag);
      }
      if (!pending.empty() && below(3) == 0) {
        const Set set = pending[below(static_cast<std::uint32_t>(pending.size()))];
        std::erase_if(pending, [&](const Set& each) { return each.flag == set.flag; });
        log.stream_wait(below(2) == 0 ? Pipe::scalar : Pipe::load, set.core, set.from, set.to, set.flag);
      }
      log.on_stream(stream);
      const std::uint64_t bytes = 1 + below(700), runs = 1 + below(12);
      add(log,
          {.begin = below(40000),
           .run_bytes = bytes,
           .runs = runs,
           .stride = bytes + below(300),
           .write = below(3) == 0,
           .streamed = below(8) == 0,
           .buffer = below(2)},
          core);
    }
    const Device device = cached_device(seed % 3 == 0 ? 1000 : 2 + seed % 6);
    const auto expected = Oracle(log.log(), device).traffic();
    const auto order = EventOrder::of(log.log(), device);
    ASSERT_TRUE(order);
    const Residency residency(log.log(), device, *order);
    for (const auto& [entry, traffic] : expected) {
      ASSERT_EQ(residency.before(entry).traffic->dram, traffic.dram) << seed << ": " << entry;
      ASSERT_EQ(residency.before(entry).traffic->l2, traffic.l2) << seed << ": " << entry;
      hits += traffic.l2;
      writes_back += traffic.dram > log.log().entries[entry].work.bytes * 4;
    }
  }
  EXPECT_GT(hits, 100000u);
  EXPECT_GT(writes_back, 0u);
}

TEST(Residency, AScalarLineIsReadOnce) {
  Device device = round_device();
  device.queues[0].issue_cycles = 1;
  device.scalar = {.miss_cycles = 100, .line = 64, .lines = 2};
  const auto cycles = [&](std::initializer_list<std::uint64_t> addresses, bool meet = false) {
    EventWriter log;
    for (std::uint64_t address : addresses) {
      const auto entry = log.add({.work = {.unit = Unit::scalar}, .verb = "scalar_read"});
      log.entry(entry).footprints = static_cast<std::uint32_t>(log.log().footprints.size());
      log.entry(entry).footprint_count = 1;
      log.log().footprints.push_back({.memory = 0, .begin = address, .runs = 1, .run_bytes = 4});
      if (meet) log.stream(Event::sync_all, 0, "sync_all");
    }
    return to_cycles(timed(log.log(), device).makespan);
  };
  EXPECT_EQ(cycles({0}), 101);
  EXPECT_EQ(cycles({0, 60}), 102);
  EXPECT_EQ(cycles({0, 64}), 202);
  EXPECT_EQ(cycles({0, 64, 0, 128, 64}), 405) << "two lines: 128 pushed out 64, not 0, which was read again";
  EXPECT_EQ(cycles({0, 0}, true), 202) << "others may have written meanwhile";
}

}  // namespace
}  // namespace inlay::npu
