// Logs written by hand, and a device with round numbers, for the tests of the timing model.
#pragma once

#include <random>

#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

// Path of transfers in round_device().
enum TestPath : std::uint8_t { dram_load, dram_load_vector, dram_store, local_feed, local_drain };

// A queue for each role, which issues for free; 16 bytes a cycle and core from global memory, 64 locally.
inline Device round_device() {
  Device device;
  device.name = "round";
  device.memories = {{.name = "global", .bytes = 1u << 30}, {.name = "scratch", .bytes = 1u << 20}};
  device.memory_of = {0, 1, 1, 1, 1, 1};
  for (int pipe = 0; pipe < pipes; ++pipe) {
    device.queues.push_back({.name = std::string(name(static_cast<Pipe>(pipe))), .issue_cycles = 0});
    device.queue_of[pipe] = static_cast<std::uint8_t>(pipe);
  }
  device.dram_bytes_per_cycle = 1024;
  device.dram_bytes_per_cycle_core = 16;
  const auto path = [&](Space from, Space to, Pipe pipe, double bandwidth, bool dram) {
    device.paths.push_back({.from = from, .to = to, .pipe = pipe, .bytes_per_cycle = bandwidth, .dram = dram});
  };
  path(Space::global, Space::staging, Pipe::load, 16, true);
  path(Space::global, Space::vector, Pipe::load_vector, 16, true);
  path(Space::vector, Space::global, Pipe::store, 16, true);
  path(Space::staging, Space::left, Pipe::feed, 64, false);
  path(Space::accumulator, Space::vector, Pipe::drain, 64, false);
  device.matrix.rates = {{.in = DType::f16, .out = DType::f32, .m = 16, .n = 16, .k = 16, .cycles = 1}};
  device.vector.bytes = 64;  // 16 elements of f32
  device.sync.set_cycles = device.sync.wait_cycles = device.sync.barrier_cycles = device.sync.cross_cycles = 0;
  return device;
}

class EventWriter {
 public:
  explicit EventWriter(std::uint16_t cores = 1) { log_.cores = cores; }

  std::uint32_t dma(Pipe pipe, std::uint8_t path, std::uint64_t bytes, std::uint64_t runs = 1, std::uint16_t core = 0) {
    return add({.core = core,
                .pipe = pipe,
                .work = {.unit = Unit::dma, .path = path, .bytes = bytes, .runs = runs},
                .verb = "copy"});
  }
  // A transfer that touches global memory at `begin`.
  std::uint32_t at(std::uint32_t transfer, std::uint64_t begin, bool write) {
    Entry& entry = log_.entries[transfer];
    entry.footprints = static_cast<std::uint32_t>(log_.footprints.size());
    entry.footprint_count = 1;
    log_.footprints.push_back({.memory = 0, .write = write, .begin = begin, .runs = 1, .run_bytes = entry.work.bytes});
    return transfer;
  }
  std::uint32_t load(std::uint64_t bytes, std::uint16_t core = 0) { return dma(Pipe::load, dram_load, bytes, 1, core); }
  // `cycles` cycles of round_device().
  std::uint32_t vector(std::uint64_t cycles, std::uint16_t core = 0) {
    return add({.core = core,
                .pipe = Pipe::vector,
                .work = {.unit = Unit::vector, .elements = cycles * 16},
                .verb = "vbinary"});
  }
  std::uint32_t mma(std::uint32_t m, std::uint32_t n, std::uint32_t k, std::uint16_t core = 0) {
    return add({.core = core,
                .pipe = Pipe::matrix,
                .work = {.unit = Unit::matrix, .in = DType::f16, .out = DType::f32, .m = m, .n = n, .k = k},
                .verb = "mma"});
  }
  std::uint32_t set(Pipe from, Pipe to, std::uint16_t flag, std::uint16_t core = 0) {
    return add({.event = Event::set, .core = core, .pipe = from, .from = from, .to = to, .flag = flag, .verb = "set"});
  }
  std::uint32_t wait(Pipe from, Pipe to, std::uint16_t flag, std::uint16_t core = 0) {
    return add({.event = Event::wait, .core = core, .pipe = to, .from = from, .to = to, .flag = flag, .verb = "wait"});
  }
  std::uint32_t cross_set(Pipe pipe, std::uint16_t core, std::uint16_t peer, std::uint16_t flag) {
    return add(
        {.event = Event::cross_set, .core = core, .pipe = pipe, .flag = flag, .peer = peer, .verb = "cross_set"});
  }
  std::uint32_t cross_wait(Pipe pipe, std::uint16_t core, std::uint16_t flag) {
    return add({.event = Event::cross_wait, .core = core, .pipe = pipe, .flag = flag, .verb = "cross_wait"});
  }
  std::uint32_t stream(Event event, std::uint16_t core = 0, const char* verb = "barrier_all") {
    return add({.event = event, .core = core, .verb = verb});
  }
  // Between two streams of a core.
  std::uint32_t stream_set(Pipe pipe, std::uint16_t core, std::uint8_t from, std::uint8_t to, std::uint16_t flag) {
    return add({.event = Event::stream_set,
                .core = core,
                .stream = from,
                .peer_stream = to,
                .pipe = pipe,
                .from = pipe,
                .flag = flag,
                .verb = "set"});
  }
  std::uint32_t stream_wait(Pipe pipe, std::uint16_t core, std::uint8_t from, std::uint8_t to, std::uint16_t flag) {
    return add({.event = Event::stream_wait,
                .core = core,
                .stream = to,
                .peer_stream = from,
                .pipe = pipe,
                .to = pipe,
                .flag = flag,
                .verb = "wait"});
  }
  // Who issues what comes next, where an entry does not say it itself.
  void on_stream(std::uint8_t stream) { stream_ = stream; }
  std::uint32_t add(Entry entry) {
    if (entry.event != Event::stream_set && entry.event != Event::stream_wait) entry.stream = stream_;
    log_.entries.push_back(entry);
    return static_cast<std::uint32_t>(log_.entries.size() - 1);
  }
  Entry& entry(std::uint32_t index) { return log_.entries[index]; }
  EventLog& log() { return log_; }

 private:
  EventLog log_;
  std::uint8_t stream_ = 0;
};

// Every kind of entry, in an order in which no wait comes before its set.
inline EventLog random_log(std::uint32_t seed, std::uint16_t cores, int entries, std::uint8_t streams = 1) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  constexpr std::uint8_t path_of[pipes] = {0, dram_load, dram_load_vector, local_feed, 0, 0, local_drain, dram_store};
  EventWriter log(cores);
  log.log().streams.assign(streams, 0);
  struct Set {
    Event event;
    Pipe from, to;
    std::uint16_t flag, core;
    std::uint8_t stream = 0, peer = 0;
  };
  std::vector<Set> sets;
  for (int i = 0; i < entries; ++i) {
    const auto core = static_cast<std::uint16_t>(below(cores));
    const auto pipe = static_cast<Pipe>(below(pipes));
    const auto other = static_cast<Pipe>(below(pipes));
    const auto flag = static_cast<std::uint16_t>(below(4));
    const std::uint32_t kind = below(100);
    const std::uint32_t size = below(8000), runs = below(4);
    const auto stream = static_cast<std::uint8_t>(streams > 1 ? below(streams) : 0);
    const auto peer_stream = static_cast<std::uint8_t>(streams > 1 ? below(streams) : 0);
    log.on_stream(stream);
    if (kind < 50) {
      if (pipe == Pipe::matrix)
        log.mma(1 + size % 64, 1 + size / 64 % 64, 1 + runs * 16, core);
      else if (pipe == Pipe::vector)
        log.vector(1 + size % 200, core);
      else if (pipe == Pipe::scalar)
        log.at(log.add({.core = core, .work = {.unit = Unit::scalar, .bytes = 4}, .verb = "scalar_read"}), size, false);
      else
        log.at(log.dma(pipe, path_of[static_cast<int>(pipe)], size, 1 + runs, core), below(4) * 4096,
               pipe == Pipe::store);
    } else if (kind < 72) {
      if (peer_stream != stream) {  // ids of a stream's own: no two queues set one channel
        const auto own = static_cast<std::uint16_t>(pipe);
        log.stream_set(pipe, core, stream, peer_stream, own);
        sets.push_back({Event::stream_set, pipe, other, own, core, stream, peer_stream});
        continue;
      }
      if (pipe == other) continue;
      log.entry(log.set(pipe, other, flag, core)).unit = below(3) == 0;
      sets.push_back({Event::set, pipe, other, flag, core, stream});
    } else if (kind < 90 && !sets.empty()) {
      const std::uint32_t at = below(static_cast<std::uint32_t>(sets.size()));
      const Set set = sets[at];
      sets.erase(sets.begin() + at);
      log.on_stream(set.stream);
      if (set.event == Event::cross_set)
        log.cross_wait(set.to, set.core, set.flag);
      else if (set.event == Event::stream_set)
        log.stream_wait(set.to, set.core, set.stream, set.peer, set.flag);
      else
        log.wait(set.from, set.to, set.flag, set.core);
    } else if (kind < 94) {
      log.add({.event = Event::barrier, .core = core, .pipe = pipe, .verb = "barrier"});
    } else if (kind < 96) {
      log.stream(Event::barrier_all, core);
    } else if (kind < 99) {
      const auto peer = static_cast<std::uint16_t>(below(cores));
      log.cross_set(pipe, core, peer, core);  // a flag for each sender: no two cores set one channel
      sets.push_back({Event::cross_set, pipe, other, core, peer, stream});
    } else {
      for (std::uint16_t each = 0; each < cores; ++each)
        for (std::uint8_t of_core = 0; of_core < streams; ++of_core) {
          log.on_stream(of_core);
          log.stream(Event::sync_all, each, "sync_all");
        }
    }
  }
  return log.log();
}

// round_device() with every cost drawn at random, in whole cycles.
inline Device random_device(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<double>(random() % n); };
  Device device = round_device();
  for (Queue& queue : device.queues) {
    queue.issue_cycles = below(4);
    queue.depth = 1 + random() % 8;
    queue.outstanding = 1 + random() % 4;
  }
  for (Path& path : device.paths) {
    path.bytes_per_cycle = 8 + below(120);
    path.half_burst = below(512);
    path.latency = below(60);
  }
  device.dram_bytes_per_cycle_core = 16 + below(100);
  device.dram_bytes_per_cycle = device.dram_bytes_per_cycle_core + below(200);
  for (VectorCost& cost : device.vector.cost) cost.head = below(12);
  device.matrix.head = below(20);
  device.sync.set_cycles = below(3);
  device.sync.wait_cycles = below(3);
  device.sync.barrier_cycles = below(5);
  device.sync.cross_cycles = below(30);
  device.sync.stream_cycles = below(200);
  device.sync.unit_flag_bytes = seed % 3 == 0 ? 0 : 1 + random() % 2000;
  device.scalar = {.miss_cycles = below(50), .line = 64, .lines = 4};
  if (seed % 4 == 0) return device;
  device.l2 = {.bytes = 8192,
               .line = 64,
               .bytes_per_cycle = device.dram_bytes_per_cycle + below(400),
               .bytes_per_cycle_core = device.dram_bytes_per_cycle_core,
               .latency = below(40)};
  return device;
}

inline Timeline timed(const EventLog& log, const Device& device, Sharing sharing = Sharing::max_min) {
  auto timeline = time_events(log, device, {.sharing = sharing});
  return timeline ? std::move(*timeline) : Timeline{};
}

// Cycles that a lane lost to a cause.
inline double lost(const Timeline& timeline, Pipe pipe, Cause cause, std::uint16_t core = 0) {
  Tick ticks = 0;
  for (const Stall& stall : timeline.lanes[timeline.order.lane(core, static_cast<std::uint32_t>(pipe))].stalls)
    if (stall.cause == cause) ticks += stall.ticks;
  return to_cycles(ticks);
}

inline Tick accounted(const LaneTime& lane) {
  Tick ticks = lane.busy;
  for (const Stall& stall : lane.stalls) ticks += stall.ticks;
  return ticks;
}

}  // namespace inlay::npu
