// The trace, read back as a viewer reads it.
#include "tile_machine/time/trace.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tile_machine/tests/time/logs.hpp"

namespace inlay::npu {
namespace {

using nlohmann::json;
using Thread = std::pair<int, int>;

struct Parsed {
  EventLog log;
  Device device;
  Timeline time;
  std::vector<json> of(const std::string& phase) const {
    std::vector<json> result;
    for (const json& event : trace["traceEvents"])
      if (event["ph"] == phase) result.push_back(event);
    return result;
  }
  json trace;
};

Parsed parsed(std::uint32_t seed) {
  Parsed result{.log = random_log(seed, 3, 500), .device = random_device(seed), .time = {}, .trace = {}};
  result.time = timed(result.log, result.device);
  result.trace = json::parse(trace_json(result.log, result.device, result.time));
  return result;
}

Thread thread_of(const json& event) { return {event["pid"], event["tid"]}; }
// How viewers take times in: whole nanoseconds, each number cut by itself. They drop overlapping slices.
using Nanoseconds = std::int64_t;
Nanoseconds nanoseconds(const json& us) {
  const double exact = us.get<double>() * 1000;
  EXPECT_EQ(exact, std::floor(exact)) << "rounding and cutting are the same";
  return static_cast<Nanoseconds>(exact);
}
Nanoseconds begin_of(const json& event) { return nanoseconds(event["ts"]); }
Nanoseconds end_of(const json& event) { return begin_of(event) + nanoseconds(event["dur"]); }

TEST(Trace, SlicesOfAThreadFollowOneAnother) {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    const Parsed run = parsed(seed);
    std::map<Thread, Nanoseconds> free;
    const auto slices = run.of("X");
    EXPECT_EQ(slices.size(), run.log.entries.size()) << "random logs allocate nothing";
    for (const json& slice : slices) {
      EXPECT_GE(begin_of(slice), free[thread_of(slice)]);
      free[thread_of(slice)] = end_of(slice);
      EXPECT_LE(end_of(slice), 1000 * to_cycles(run.time.makespan) + 62.5);
    }
  }
}

TEST(Trace, EventsAscend) {
  const Parsed run = parsed(1);
  Nanoseconds last = 0;
  for (const json& event : run.trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    EXPECT_GE(begin_of(event), last);
    last = begin_of(event);
  }
}

TEST(Trace, WorkIsBusyTimeAndTheStretchOfSharing) {
  const Parsed run = parsed(3);  // no unit flags: what follows by one is drawn as work and charged to its wait
  std::map<Thread, double> work, rounded;  // both ends of a slice, to an eighth of a cycle
  for (const json& slice : run.of("X")) {
    if (slice["cat"] != "work") continue;
    work[thread_of(slice)] += slice["dur"].get<double>();
    rounded[thread_of(slice)] += 0.125;
  }
  for (const LaneTime& lane : run.time.lanes) {
    if (lane.queue == static_cast<int>(Pipe::scalar)) continue;  // its issue is not drawn
    const auto shared = [&](Cause cause) {
      return lost(run.time, static_cast<Pipe>(lane.queue), cause, static_cast<std::uint16_t>(lane.core));
    };
    const double stretch = shared(Cause::dram_share) + shared(Cause::l2_share);
    const Thread thread(lane.core + 1, lane.queue + 1);
    EXPECT_NEAR(work[thread], to_cycles(lane.busy) + stretch, rounded[thread]);
  }
}

TEST(Trace, ArrowsPairUpAndEndInSlices) {
  const Parsed run = parsed(3);
  std::map<Thread, std::vector<json>> slices;
  for (const json& slice : run.of("X")) slices[thread_of(slice)].push_back(slice);
  const auto inside = [&](const json& arrow) {
    for (const json& slice : slices[thread_of(arrow)])
      if (begin_of(slice) <= begin_of(arrow) && begin_of(arrow) <= end_of(slice)) return true;
    return false;
  };
  std::map<int, json> begun;
  for (const json& arrow : run.of("s")) {
    EXPECT_TRUE(begun.emplace(arrow["id"].get<int>(), arrow).second);
    EXPECT_TRUE(inside(arrow));
  }
  EXPECT_GT(begun.size(), 20u);
  for (const json& arrow : run.of("f")) {
    const auto from = begun.find(arrow["id"]);
    ASSERT_NE(from, begun.end());
    EXPECT_LE(begin_of(from->second), begin_of(arrow));
    EXPECT_TRUE(inside(arrow));
    begun.erase(from);
  }
  EXPECT_TRUE(begun.empty());
}

TEST(Trace, TheBandwidthCounterMovesTheBytes) {
  const Parsed run = parsed(4);
  double at = 0, rate = 0, bytes = 0;
  for (const json& sample : run.of("C")) {
    bytes += rate * (sample["ts"].get<double>() - at);
    at = sample["ts"];
    rate = sample["args"]["bytes per cycle"];
  }
  EXPECT_EQ(rate, 0);
  EXPECT_NEAR(bytes, static_cast<double>(run.time.dram_bytes), 1e-3 * bytes)
      << "but for the last tick of each transfer";
}

TEST(Trace, CountsAllocatedBytes) {
  EventWriter writer;
  EventLog& log = writer.log();
  log.buffers = {{.memory = 1, .bytes = 100, .name = "a"}, {.memory = 1, .bytes = 28, .name = "b"}};
  const auto scratch = [&](Event event, std::uint32_t buffer) {
    writer.add({.event = event, .buffer = buffer, .verb = "alloc"});
  };
  scratch(Event::allocate, 0);
  scratch(Event::allocate, 1);
  writer.vector(10);
  writer.stream(Event::barrier_all);
  scratch(Event::release, 0);
  scratch(Event::release, 1);
  const Device device = round_device();
  const json trace = json::parse(trace_json(log, device, timed(log, device)));
  std::vector<double> bytes;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "C" && event["name"] == "scratch") bytes.push_back(event["args"]["bytes"]);
  EXPECT_EQ(bytes, (std::vector<double>{100, 128, 28, 0}));
}

TEST(Trace, NamesCoresAndQueues) {
  const Parsed run = parsed(5);
  std::map<int, std::string> processes;
  int threads = 0;
  for (const json& event : run.of("M")) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    threads += event["name"] == "thread_name";
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{1, "core 0"}, {2, "core 1"}, {3, "core 2"}, {4, "global memory"}}));
  EXPECT_EQ(threads, 3 * pipes);
}

TEST(Trace, ThreadsOfACoreAreItsStreamsQueues) {
  Device device = round_device();
  device.queues[static_cast<int>(Pipe::matrix)].name = "AIC.M";
  device.queues[static_cast<int>(Pipe::vector)].name = "AIV.V";
  constexpr auto index = [](Pipe pipe) { return static_cast<std::uint8_t>(pipe); };
  device.streams = {{"AIC", 1, {index(Pipe::load), index(Pipe::feed), index(Pipe::matrix), index(Pipe::drain)}, {}},
                    {"AIV", 2, {index(Pipe::load_vector), index(Pipe::vector), index(Pipe::store)}, {1}}};
  EventWriter log(2);
  log.log().streams = {0, 1, 1};
  for (std::uint16_t core = 0; core < 2; ++core) {
    log.on_stream(0);
    log.mma(16, 16, 16, core);
    log.stream_set(Pipe::matrix, core, 0, 2, 0);
    log.stream_wait(Pipe::vector, core, 0, 2, 0);
    log.on_stream(1);
    log.vector(10, core);
  }
  const json trace = json::parse(trace_json(log.log(), device, timed(log.log(), device)));
  std::map<Thread, std::string> names;
  std::map<std::string, int> arrows;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") names[thread_of(event)] = event["args"]["name"];
    if (event["ph"] == "s" || event["ph"] == "f") ++arrows[names.at(thread_of(event))];
  }
  std::map<std::string, int> counted;
  for (const auto& [thread, called] : names) counted[std::to_string(thread.first) + " " + called]++;
  EXPECT_EQ(counted,
            (std::map<std::string, int>{
                {"1 AIC.M", 1}, {"1 AIV0.V", 1}, {"1 AIV1.V", 1}, {"2 AIC.M", 1}, {"2 AIV0.V", 1}, {"2 AIV1.V", 1}}));
  EXPECT_EQ(arrows, (std::map<std::string, int>{{"AIC.M", 2}, {"AIV1.V", 2}}));
}

TEST(Trace, IsWrittenOrTheFileIsNamed) {
  const EventLog log = random_log(6, 1, 50);
  const Device device = round_device();
  const Timeline time = timed(log, device);
  const std::string file = testing::TempDir() + "trace.json";
  ASSERT_TRUE(write_trace(file, log, device, time).ok());
  EXPECT_EQ(json::parse(std::ifstream(file)), json::parse(trace_json(log, device, time)));
  EXPECT_NE(write_trace("/nowhere/trace.json", log, device, time).message().find("/nowhere/trace.json"),
            std::string_view::npos);
}

}  // namespace
}  // namespace inlay::npu
