// When steps run on devices whose times are known, by hand and by what holds for every timeline.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/exec/time/trace.hpp>
#include <inlay/ops/add.hpp>

#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

constexpr index widest = 100;

// Cells of memory, and steps that make one out of two others. A step takes as many microseconds as it has columns.
class Cells {
 public:
  explicit Cells(index cells) : memory_(static_cast<std::size_t>(cells * widest)), edges_(Edges::in_order(0)) {}

  // On device `device`: cell y out of the cells a and b.
  void add(std::size_t device, index us, index a, index b, index y, index chunk = 0) {
    GraphRecorder<Reference> record(graph_, chunk);
    const auto cell = [&](index i) { return View<2>(memory_.data() + i * widest, {1, us}); };
    record(Add<Host>{.a = cell(a), .b = cell(b), .y = cell(y)});
    ASSERT_TRUE(ok(record.take_status()));
    placement_.push_back(device);
    edges_ = Edges::of(graph_.accesses());
  }

  std::vector<Device*> devices(const std::vector<DeviceOptions>& options) {
    std::vector<Device*> list;
    for (const DeviceOptions& each : options) {
      const StepTime time = [](const GraphStep& step) -> Expected<double> { return static_cast<double>(step.width); };
      list.push_back(&devices_.emplace_back(each, computed_by(Reference()), time));
    }
    return list;
  }
  DeviceTimeline run(Policy policy, DeviceKind first = DeviceKind::npu) {
    DeviceTimeline timeline;
    const auto both = devices({{.name = "npu", .kind = first}, {.name = "cpu"}});
    EXPECT_TRUE(ok(run_steps(
        {.graph = graph_, .edges = edges_, .devices = both, .placement = placement_, .policy = policy}, timeline)));
    return timeline;
  }

  StepGraph& graph() { return graph_; }
  const Edges& edges() const { return edges_; }
  std::vector<std::size_t>& placement() { return placement_; }

 private:
  std::vector<float> memory_;
  StepGraph graph_;
  Edges edges_;
  std::vector<std::size_t> placement_;
  std::list<SimDevice> devices_;
};

std::vector<index> steps_on(const DeviceTimeline& timeline, std::size_t device) {
  std::vector<index> steps;
  for (const auto& span : timeline.spans)
    if (span.device == device) steps.push_back(span.step);
  return steps;
}

//   npu | 0: 10      | 2: 20                | .. | 4: 5 |
//   cpu |            | 1: 5 | 3: 30                |              4 waits for 2 and 3, 1 and 2 for 0, 3 for 1
TEST(schedules, a_timeline_as_drawn) {
  Cells cells(10);
  cells.add(0, 10, 0, 0, 1);
  cells.add(1, 5, 1, 1, 2);
  cells.add(0, 20, 1, 1, 3);
  cells.add(1, 30, 2, 2, 4);
  cells.add(0, 5, 3, 4, 5);
  const DeviceTimeline timeline = cells.run(Policy::fifo);
  ASSERT_EQ(timeline.spans.size(), 5u);
  const auto begin = [&](index step) {
    return std::ranges::find(timeline.spans, step, &DeviceTimeline::Span::step)->begin_us;
  };
  EXPECT_EQ(begin(0), 0);
  EXPECT_EQ(begin(1), 10);
  EXPECT_EQ(begin(2), 10);
  EXPECT_EQ(begin(3), 15);
  EXPECT_EQ(begin(4), 45);
  EXPECT_EQ(timeline.makespan_us(), 50);
  EXPECT_EQ(timeline.busy_us(0), 35);
  EXPECT_EQ(timeline.shared_us(0), 20);
  EXPECT_EQ(timeline.shared_us(1), 20);
  EXPECT_DOUBLE_EQ(timeline.bubble_share(0), 0.3);
  EXPECT_DOUBLE_EQ(timeline.bubble_share(1), 0.3);
  EXPECT_EQ(lower_bound_us(timeline, cells.edges()), 50);
  EXPECT_EQ(critical_path(timeline, cells.edges()), (std::vector<index>{0, 1, 3, 4}));
}

TEST(schedules, a_bound_is_what_one_device_has_to_do) {
  Cells cells(4);
  cells.add(0, 10, 0, 0, 1);
  cells.add(0, 20, 0, 0, 2);
  cells.add(1, 25, 0, 0, 3);
  EXPECT_EQ(lower_bound_us(cells.run(Policy::fifo), cells.edges()), 30);
}

// The npu has a choice of 1 (chunk 1) and 3 (chunk 0), which became ready in this order; 1 makes 40 us of steps ready,
// 3 a longer path but 2 us at once.
class Choice {
 public:
  Choice() : cells(10) {
    cells.add(1, 1, 0, 0, 1, 1);   // 0
    cells.add(0, 10, 1, 1, 2, 1);  // 1
    cells.add(1, 40, 2, 2, 3, 1);  // 2
    cells.add(1, 2, 0, 0, 4, 0);   // 3: ready on the cpu at once
    cells.add(0, 20, 0, 0, 9, 2);  // 4: keeps the npu until both wait
    cells.add(0, 10, 4, 4, 5, 0);  // 5
    cells.add(1, 2, 5, 5, 6, 0);   // 6
    cells.add(1, 90, 6, 6, 7, 0);  // 7
  }
  std::vector<index> order(Policy policy, DeviceKind kind = DeviceKind::npu) {
    auto steps = steps_on(cells.run(policy, kind), 0);
    EXPECT_EQ(steps.front(), 4);
    return {steps.begin() + 1, steps.end()};
  }
  Cells cells;
};
TEST(schedules, policies_choose_what_they_say) {
  using Order = std::vector<index>;
  EXPECT_EQ(Choice().order(Policy::chunk_order), (Order{5, 1}));
  EXPECT_EQ(Choice().order(Policy::upward_rank), (Order{5, 1}));
  EXPECT_EQ(Choice().order(Policy::longest_unlock, DeviceKind::gpu), (Order{1, 5}));
  EXPECT_EQ(Choice().order(Policy::longest_unlock, DeviceKind::npu), (Order{5, 1}));
}
// What waits for another one too is not made ready: the 90 us behind step 0 count for nothing yet.
TEST(schedules, longest_unlock_counts_what_becomes_ready_at_once) {
  Cells cells(8);
  cells.add(0, 10, 0, 0, 1);
  cells.add(0, 10, 0, 0, 2);
  cells.add(1, 50, 0, 0, 3);
  cells.add(1, 90, 1, 3, 4);
  cells.add(1, 5, 2, 2, 5);
  EXPECT_EQ(steps_on(cells.run(Policy::longest_unlock, DeviceKind::gpu), 0), (std::vector<index>{1, 0}));
}
TEST(schedules, fifo_takes_what_waits_longest) {
  Choice choice;
  const DeviceTimeline timeline = choice.cells.run(Policy::fifo);
  EXPECT_EQ(steps_on(timeline, 0), (std::vector<index>{4, 1, 5}));
  EXPECT_EQ(steps_on(timeline, 1), (std::vector<index>{0, 3, 2, 6, 7}));
}

// Whatever the policy: no step begins before those that it waits for have ended, nor two at once on one device; the
// critical path has no gap; nothing beats the lower bound; twice is the same.
TEST(schedules, what_holds_for_every_timeline) {
  std::mt19937 random(6);
  for (int i = 0; i < 60; ++i) {
    Cells cells(16);
    for (int step = 0; step < 30; ++step) {
      const auto cell = [&] { return static_cast<index>(random() % 16); };
      cells.add(random() % 2, 1 + static_cast<index>(random() % widest), cell(), cell(), cell(), step / 10);
    }
    for (const Policy policy : policies) {
      SCOPED_TRACE(std::string(name(policy)) + ", program " + std::to_string(i));
      const DeviceTimeline timeline = cells.run(policy);
      ASSERT_EQ(timeline.spans.size(), 30u);
      std::vector<double> ends(30), device_ends(2);
      for (const auto& span : timeline.spans) ends[static_cast<std::size_t>(span.step)] = span.end_us;
      for (const auto& span : timeline.spans) {
        for (const index from : cells.edges().before(span.step))
          EXPECT_LE(ends[static_cast<std::size_t>(from)], span.begin_us);
        EXPECT_LE(device_ends[span.device], span.begin_us);
        device_ends[span.device] = span.end_us;
      }
      double sum = 0;
      for (const index step : critical_path(timeline, cells.edges()))
        sum += std::ranges::find(timeline.spans, step, &DeviceTimeline::Span::step)->us();
      EXPECT_EQ(sum, timeline.makespan_us());
      EXPECT_GE(timeline.makespan_us(), lower_bound_us(timeline, cells.edges()));
      EXPECT_EQ(trace_json("a run", timeline, cells.graph()), trace_json("a run", cells.run(policy), cells.graph()));
    }
  }
}

TEST(schedules, a_trace_has_a_track_for_each_device) {
  Cells cells(4);
  cells.add(0, 10, 0, 0, 1);
  cells.add(1, 5, 1, 1, 2, 3);
  const auto trace = nlohmann::json::parse(trace_json("prefill", cells.run(Policy::fifo), cells.graph()));
  const auto& events = trace.at("traceEvents");
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].at("args").at("name"), "prefill");
  EXPECT_EQ(events[1].at("args").at("name"), "npu");
  EXPECT_EQ(events[2].at("tid"), 1);
  EXPECT_EQ(
      events[4],
      (nlohmann::json{{"ph", "X"}, {"name", "add 5, chunk 3"}, {"pid", 0}, {"tid", 1}, {"ts", 10.0}, {"dur", 5.0}}));
}

TEST(schedules, a_placement_is_checked_before_anything_is_computed) {
  Cells cells(4);
  cells.add(0, 10, 0, 0, 1);
  cells.add(1, 5, 1, 1, 2);
  DeviceTimeline timeline;
  const auto run_on = [&](const std::vector<Device*>& devices) {
    return run_steps(
        {.graph = cells.graph(), .edges = cells.edges(), .devices = devices, .placement = cells.placement()}, timeline);
  };
  EXPECT_EQ(run_on(cells.devices({{.name = "npu"}})).message(), "placement[1] is 1; it must be below 1, the devices");
  index computed = 0;
  const StepCompute counts = [&](const GraphStep&) {
    ++computed;
    return Status();
  };
  SimDevice first({.name = "first"}, counts, [](const GraphStep&) -> Expected<double> { return 1; });
  SimDevice never({.name = "never"}, counts,
                  [](const GraphStep&) -> Expected<double> { return failure(unsupported("it computes nothing")); });
  const Status refused = run_on({&first, &never});
  EXPECT_EQ(refused.code(), StatusCode::unsupported);
  EXPECT_EQ(refused.message(), "device never, step 1 (add): it computes nothing");
  EXPECT_EQ(computed, 0);
  cells.placement().pop_back();
  EXPECT_EQ(run_on({&first, &first}).message(), "placement has 1 entries; it must have 2, one for each step");
}

// A step that fails ends the run: what is under way on others is waited for, nothing begins behind it.
TEST(schedules, a_failure_lets_the_others_end) {
  Cells cells(8);
  cells.add(0, 10, 0, 0, 1);
  cells.add(1, 50, 0, 0, 2);
  cells.add(0, 10, 1, 1, 3);
  cells.add(1, 10, 2, 2, 4);
  cells.add(0, 10, 3, 3, 5);
  const StepTime time = [](const GraphStep& step) -> Expected<double> { return static_cast<double>(step.width); };
  index computed = 0;
  SimDevice npu(
      {.name = "npu", .kind = DeviceKind::npu},
      [&](const GraphStep&) { return ++computed == 2 ? Status(StatusCode::internal, "it is lost") : Status(); }, time);
  SimDevice cpu({.name = "cpu"}, {}, time);
  const std::vector<Device*> devices{&npu, &cpu};
  DeviceTimeline timeline;
  const Status status = run_steps(
      {.graph = cells.graph(), .edges = cells.edges(), .devices = devices, .placement = cells.placement()}, timeline);
  EXPECT_EQ(status.message(), "device npu, step 2 (add): it is lost");
  EXPECT_EQ(steps_on(timeline, 0), (std::vector<index>{0}));
  EXPECT_EQ(steps_on(timeline, 1), (std::vector<index>{1}));
  EXPECT_EQ(timeline.makespan_us(), 50);
}

TEST(schedules, a_watchdog_ends_what_takes_too_long) {
  Cells cells(4);
  cells.add(0, 10, 0, 0, 1);
  cells.add(0, 30, 1, 1, 2);
  cells.add(1, 80, 0, 0, 3);
  DeviceTimeline timeline;
  const auto run_with = [&](double watchdog, double slow) {
    const StepTime time = [=](const GraphStep& step) -> Expected<double> {
      return step.width == 30 ? slow : static_cast<double>(step.width);
    };
    SimDevice npu({.name = "npu", .limits = {.watchdog_us = watchdog}}, {}, time);
    SimDevice cpu({.name = "cpu"}, {}, time);
    const std::vector<Device*> devices{&npu, &cpu};
    return run_steps(
        {.graph = cells.graph(), .edges = cells.edges(), .devices = devices, .placement = cells.placement()}, timeline);
  };
  EXPECT_TRUE(ok(run_with(30, 30)));
  EXPECT_EQ(run_with(25, 30).message(),
            "device npu, step 1 (add): is not done after 25.000000 us, the device's watchdog");
  EXPECT_EQ(steps_on(timeline, 1), (std::vector<index>{2}));
  EXPECT_FALSE(run_with(25, INFINITY).ok());
  EXPECT_EQ(run_with(INFINITY, INFINITY).message(),
            "device npu, step 1 (add): is never done, and the device has no watchdog");
}

}  // namespace
}  // namespace inlay::exec::test
