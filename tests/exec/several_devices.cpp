// A small model on two devices at once: the bits of its placement whatever the times and the policy, times of a
// described NPU, and a failure at every step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>

#include "tests/exec/support/pipeline.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

TEST(several_devices, bits_are_those_of_the_placement) {
  struct Model {
    ModelConfig config;
    std::string type;
    DType kv_type;
  };
  for (const Model& model : {Model{tiny(), "w4a16", DType::f16}, {tiny_mixture(), "f16", DType::i8}}) {
    Pipeline pipeline(model.config, model.type, model.kv_type);
    const StepCompute reference = computed_by(Reference()), vectors = computed_by(Cpu(serial()));
    const auto expected = pipeline.expected(reference, vectors);
    EXPECT_NE(expected, pipeline.expected(vectors, vectors)) << "placements make no difference";
    for (const Policy policy : policies)
      for (const unsigned seed : {1u, 2u, 3u}) {
        SimDevice npu({.name = "npu", .kind = DeviceKind::npu}, reference, drawn_times(seed));
        SimDevice cpu({.name = "cpu"}, vectors, drawn_times(seed + 7));
        ASSERT_TRUE(ok(pipeline.run(npu, cpu, policy)));
        EXPECT_EQ(pipeline.passes().contents(), expected) << name(policy) << ", times " << seed;
      }
  }
}

// Chunks overlap: less than one after the other, no less than what the placement allows.
TEST(several_devices, chunks_overlap) {
  Pipeline pipeline;
  const StepTime time = drawn_times(1);
  SimDevice npu({.name = "npu", .kind = DeviceKind::npu}, {}, time), cpu({.name = "cpu"}, {}, time);
  std::set<double> makespans;
  for (const Policy policy : policies) {
    ASSERT_TRUE(ok(pipeline.run(npu, cpu, policy)));
    const DeviceTimeline& timeline = pipeline.timeline;
    EXPECT_LT(timeline.makespan_us(), 0.85 * (timeline.busy_us(npu_device) + timeline.busy_us(cpu_device)));
    EXPECT_GE(timeline.makespan_us(), lower_bound_us(timeline, pipeline.edges()));
    makespans.insert(timeline.makespan_us());
  }
  EXPECT_GT(makespans.size(), 1u);
}

TEST(several_devices, the_wall_clock_measures) {
  Pipeline pipeline;
  const StepCompute vectors = computed_by(Cpu(serial()));
  const auto expected = pipeline.expected(vectors, vectors);
  CpuDevice one({.name = "one"}, vectors), other({.name = "other"}, vectors);
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(ok(pipeline.run(one, other, Policy::upward_rank)));
    EXPECT_EQ(pipeline.passes().contents(), expected);
  }
  // What was measured serves another run: of a device that computes nothing.
  Profile measured = one.measured();
  for (const GraphStep& step : pipeline.steps())
    if (auto us = other.measured().us(step)) measured.add(step, *us);
  SimDevice again({.name = "one"}, {}, time_of(measured)), beside({.name = "other"}, {}, time_of(measured));
  ASSERT_TRUE(ok(pipeline.run(again, beside, Policy::upward_rank)));
  // Sums of fractions are rounded.
  EXPECT_GE(1.000001 * pipeline.timeline.makespan_us(), lower_bound_us(pipeline.timeline, pipeline.edges()));
}

#ifdef INLAY_HAS_NPU
TEST(several_devices, an_npu_takes_what_its_estimator_says) {
  auto estimator = NpuEstimator::make({.device = "hexagon-htp-like"});
  ASSERT_TRUE(estimator.has_value()) << estimator.error().message();
  Pipeline pipeline;
  SimDevice npu({.name = "npu", .kind = DeviceKind::npu}, {}, time_of(*estimator));
  SimDevice cpu({.name = "cpu"}, {}, drawn_times(1));
  ASSERT_TRUE(ok(pipeline.run(npu, cpu, Policy::longest_unlock)));
  double sum = 0;
  for (std::size_t step = 0; step < pipeline.steps().size(); ++step)
    if (pipeline.placement()[step] == npu_device) sum += *npu.predict(pipeline.steps()[step]);
  EXPECT_GT(sum, 1);
  EXPECT_NEAR(pipeline.timeline.busy_us(npu_device), sum, 1e-6 * sum);
}
#endif

// Computes until a step that it refuses, or never ends.
class Failing final : public Device {
 public:
  enum class How : unsigned char { refuses, hangs };

  Failing(const GraphStep* at, How how, std::string name, StepCompute compute)
      : Device({std::move(name), DeviceKind::npu, {.watchdog_us = 1000}}),
        at_(at),
        how_(how),
        device_({}, std::move(compute), drawn_times(1)) {}

  Expected<double> predict(const GraphStep& step) override { return device_.predict(step); }
  Event submit(const GraphStep& step, double now_us) override {
    if (&step != at_) return device_.submit(step, now_us);
    if (how_ == How::hangs) return {INFINITY, {}};
    return {now_us + 1, Status(StatusCode::internal, "it was told to fail")};
  }

 private:
  const GraphStep* at_;
  How how_;
  SimDevice device_;
};

TEST(several_devices, a_failure_at_every_step) {
  Pipeline pipeline;
  const StepCompute vectors = computed_by(Cpu(serial()));
  const auto expected = pipeline.expected(vectors, vectors);
  const std::vector<std::size_t> placement = pipeline.placement();
  const index blocks = pipeline.passes().pool().shape().blocks;
  for (std::size_t at = 0; at < placement.size(); ++at)
    for (const auto how : {Failing::How::refuses, Failing::How::hangs}) {
      const GraphStep& step = pipeline.steps()[at];
      Failing npu(&step, how, "npu", vectors), cpu(&step, how, "cpu", vectors);
      const Status status = pipeline.run(npu, cpu, policies[at % 4]);
      const std::string where = std::string("device ") + (placement[at] == npu_device ? "npu" : "cpu") + ", step " +
                                std::to_string(at) + " (" + std::string(step.name) + "): ";
      EXPECT_TRUE(status.message().starts_with(where)) << status.message() << " is not of " << where;
      EXPECT_NE(status.message().find(how == Failing::How::hangs ? "watchdog" : "told to fail"),
                std::string_view::npos);
      // Nothing that waits for it was begun, and what was begun beside it has ended.
      for (const auto& span : pipeline.timeline.spans) {
        EXPECT_NE(span.step, static_cast<index>(at));
        EXPECT_FALSE(pipeline.edges().precedes(static_cast<index>(at), span.step));
      }
      EXPECT_LE(pipeline.timeline.spans.size(), placement.size() - 1);
    }
  // The next request runs on what is left, and no block is lost.
  std::ranges::fill(pipeline.placement(), cpu_device);
  SimDevice gone({.name = "gone"}, {}, drawn_times(1)), cpu({.name = "cpu"}, vectors, drawn_times(1));
  ASSERT_TRUE(ok(pipeline.run(gone, cpu, Policy::fifo)));
  EXPECT_EQ(pipeline.passes().contents(), expected);
  std::vector<const Sequence*> texts;
  for (const Sequence& text : pipeline.passes().texts()) texts.push_back(&text);
  EXPECT_TRUE(ok(pipeline.passes().pool().audit(texts)));
  for (Sequence& text : pipeline.passes().texts()) pipeline.passes().pool().release(text);
  EXPECT_TRUE(ok(pipeline.passes().pool().audit({})));
  EXPECT_EQ(pipeline.passes().pool().free_blocks(), blocks);
}

}  // namespace
}  // namespace inlay::exec::test
