// Devices that work at the same time: the bits of the placement whatever takes how long, and a device that fails or
// hangs at any step.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <inlay/ops/add.hpp>

#include "tests/exec/support/pipeline.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;
using namespace std::chrono_literals;

// Computes behind a pause that is drawn, and knows how many of its steps are under way.
class Slow {
 public:
  Slow(StepCompute compute, unsigned seed) : compute_(std::move(compute)), random_(seed) {}

  StepCompute compute() {
    return [this](const GraphStep& step) {
      ++under_way;
      if (random_() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
      Status status = compute_(step);
      --under_way;
      return status;
    };
  }

  std::atomic<int> under_way = 0;

 private:
  StepCompute compute_;
  std::mt19937 random_;
};

// No device has two steps at once, and none begins before what it waits for has ended.
void expect_right_order(const DeviceTimeline& timeline, const Edges& edges) {
  std::vector<DeviceTimeline::Span> of_step(static_cast<std::size_t>(edges.steps()));
  ASSERT_EQ(timeline.spans.size(), of_step.size());
  std::vector<double> until(timeline.devices.size());
  for (const auto& span : timeline.spans) {
    EXPECT_GE(span.begin_us, until[span.device]);
    until[span.device] = span.end_us;
    of_step[static_cast<std::size_t>(span.step)] = span;
  }
  for (index step = 0; step < edges.steps(); ++step)
    for (const index before : edges.before(step))
      EXPECT_GE(of_step[static_cast<std::size_t>(step)].begin_us, of_step[static_cast<std::size_t>(before)].end_us);
}

TEST(devices_at_once, bits_are_those_of_the_placement) {
  Pipeline pipeline(tiny(), "w4a16");
  const StepCompute reference = computed_by(Reference()), vectors = computed_by(Cpu(serial()));
  std::mt19937 random(3);
  for (unsigned seed = 0; seed < 12; ++seed) {
    if (seed > 0)
      for (std::size_t& device : pipeline.placement()) device = random() % 2;
    const auto expected = pipeline.expected(reference, vectors);
    Slow slow_npu(reference, seed), slow_cpu(vectors, seed + 100);
    CpuDevice npu({.name = "npu", .kind = DeviceKind::npu}, slow_npu.compute()),
        cpu({.name = "cpu"}, slow_cpu.compute());
    Device* const devices[] = {&npu, &cpu};
    DeviceThreads threads(devices);
    for (const Waiting waiting : {Waiting::woken, Waiting::fast}) {
      pipeline.waiting = waiting;
      ASSERT_TRUE(ok(pipeline.run(threads, policies[seed % 4])));
      ASSERT_EQ(pipeline.passes().contents(), expected) << "placement " << seed;
      expect_right_order(pipeline.timeline, pipeline.edges());
    }
  }
}

// Two steps that nothing ties, as long as both are under way.
class TwoSteps {
 public:
  TwoSteps() : edges(Edges::in_order(0)) {
    GraphRecorder<Reference> record(graph);
    for (float* const at : {&memory_[0], &memory_[4]}) {
      const View<2> cells(at, {2, 2});
      record(Add<Host>{.a = cells, .b = cells, .y = cells});
    }
    EXPECT_TRUE(ok(record.take_status()));
    edges = Edges::of(graph.accesses());
  }
  Status run(DeviceThreads& threads, std::vector<std::size_t> placement) {
    return run_steps({.graph = graph, .edges = edges, .devices = threads.devices(), .placement = placement}, threads,
                     timeline);
  }

  StepGraph graph;
  Edges edges;
  DeviceTimeline timeline;

 private:
  float memory_[8] = {};
};

// A gate that is passed when so many have come; false if they never do.
class Gate {
 public:
  explicit Gate(int comers) : missing_(comers) {}
  bool pass() {
    std::unique_lock lock(mutex_);
    --missing_;
    changed_.notify_all();
    return changed_.wait_for(lock, 60s, [&] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
};

TEST(devices_at_once, each_waits_for_the_other_to_be_at_work) {
  TwoSteps steps;
  Gate both(2);
  const StepCompute meets = [&](const GraphStep&) {
    return both.pass() ? Status() : Status(StatusCode::internal, "nobody else was at work");
  };
  CpuDevice one({.name = "one"}, meets), other({.name = "other"}, meets);
  Device* const devices[] = {&one, &other};
  DeviceThreads threads(devices);
  EXPECT_TRUE(ok(steps.run(threads, {0, 1})));
}

TEST(devices_at_once, a_failure_at_every_step) {
  Pipeline pipeline;
  const StepCompute vectors = computed_by(Cpu(serial()));
  const std::vector<std::size_t> placement = pipeline.placement();
  for (std::size_t at = 0; at < placement.size(); ++at) {
    pipeline.waiting = at % 2 == 0 ? Waiting::woken : Waiting::fast;
    const GraphStep& failing = pipeline.steps()[at];
    const StepCompute fails = [&](const GraphStep& step) {
      return &step == &failing ? Status(StatusCode::internal, "it was told to fail") : vectors(step);
    };
    Slow slow_npu(fails, 1),
        slow_cpu([&](const GraphStep&step) { return &step == &failing ? fails(step) : Status(); }, 2);
    CpuDevice npu({.name = "npu", .kind = DeviceKind::npu}, slow_npu.compute()),
        cpu({.name = "cpu"}, slow_cpu.compute());
    Device* const devices[] = {&npu, &cpu};
    DeviceThreads threads(devices);
    const Status status = pipeline.run(threads, policies[at % 4]);
    EXPECT_EQ(status.message(), std::string("device ") + (placement[at] == npu_device ? "npu" : "cpu") + ", step " +
                                    std::to_string(at) + " (" + std::string(failing.name) + "): it was told to fail");
    EXPECT_EQ(slow_npu.under_way + slow_cpu.under_way, 0) << "a step is under way behind the end of the run";
    for (const auto& span : pipeline.timeline.spans) {
      EXPECT_NE(span.step, static_cast<index>(at));
      EXPECT_FALSE(pipeline.edges().precedes(static_cast<index>(at), span.step));
    }
  }
}

// The one step that the device has never ends, so that its watchdog cannot be due for another.
TEST(devices_at_once, a_device_that_hangs_at_every_step_is_lost) {
  Pipeline pipeline;
  const StepCompute vectors = computed_by(Cpu(serial()));
  const auto expected = pipeline.expected(vectors, vectors);
  for (std::size_t at = 0; at < pipeline.placement().size(); ++at) {
    pipeline.waiting = at % 2 == 0 ? Waiting::woken : Waiting::fast;
    Gate released(2);
    CpuDevice npu({.name = "npu", .kind = DeviceKind::npu, .limits = {.watchdog_us = 1500}},
                  [&](const GraphStep&) { return released.pass() ? Status() : Status(StatusCode::internal, "stays"); });
    Slow slow_cpu(vectors, 1);
    CpuDevice cpu({.name = "cpu"}, slow_cpu.compute());
    Device* const devices[] = {&npu, &cpu};
    DeviceThreads threads(devices);
    std::ranges::fill(pipeline.placement(), cpu_device);
    pipeline.placement()[at] = npu_device;
    const std::string step =
        "device npu, step " + std::to_string(at) + " (" + std::string(pipeline.steps()[at].name) + "): ";
    EXPECT_EQ(pipeline.run(threads, policies[at % 4]).message(),
              step + "is not done after 1500.000000 us, the device's watchdog");
    EXPECT_EQ(slow_cpu.under_way, 0);
    // The next request runs on what is left.
    EXPECT_EQ(pipeline.run(threads, Policy::fifo).message(),
              "device npu is lost: a step of an earlier run is still under way");
    if (at % 8 == 0) {
      std::ranges::fill(pipeline.placement(), cpu_device);
      ASSERT_TRUE(ok(pipeline.run(threads, Policy::fifo)));
      EXPECT_EQ(pipeline.passes().contents(), expected);
    }
    released.pass();
  }
}

TEST(devices_at_once, a_lost_device_comes_back_when_its_step_has_ended) {
  TwoSteps steps;
  Gate released(2);
  std::atomic<bool> first = true;
  CpuDevice one({.name = "one", .limits = {.watchdog_us = 1000}}, [&](const GraphStep&) {
    if (first.exchange(false)) released.pass();
    return Status();
  });
  CpuDevice other({.name = "other"}, [](const GraphStep&) { return Status(); });
  Device* const devices[] = {&one, &other};
  DeviceThreads threads(devices);
  EXPECT_FALSE(steps.run(threads, {0, 1}).ok());
  EXPECT_EQ(threads.check(0).message(), "device one is lost: a step of an earlier run is still under way");
  EXPECT_TRUE(ok(threads.check(1)));
  EXPECT_TRUE(ok(steps.run(threads, {1, 1})));
  EXPECT_EQ(steps.timeline.spans.size(), 2u);
  released.pass();
  while (!threads.check(0).ok()) std::this_thread::yield();
}

TEST(devices_at_once, what_is_not_described_is_refused) {
  TwoSteps steps;
  const StepCompute nothing = [](const GraphStep&) { return Status(); };
  CpuDevice one({.name = "one"}, nothing), other({.name = "other"}, nothing);
  Device* const devices[] = {&one, &other};
  Device* const turned[] = {&other, &one};
  DeviceThreads threads(devices);
  EXPECT_EQ(run_steps({.graph = steps.graph, .edges = steps.edges, .devices = turned, .placement = {}}, threads,
                      steps.timeline)
                .message(),
            "devices has others than the threads; it must have the same, in their order");
  EXPECT_EQ(steps.run(threads, {0}).message(), "placement has 1 entries; it must have 2, one for each step");
  EXPECT_EQ(steps.run(threads, {0, 2}).message(), "placement[1] is 2; it must be below 2, the devices");
  steps.graph = StepGraph();
  steps.edges = Edges::in_order(0);
  EXPECT_TRUE(ok(steps.run(threads, {})));
}

}  // namespace
}  // namespace inlay::exec::test
