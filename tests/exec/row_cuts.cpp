// Linears whose output channels two devices compute: each channel has the bits of its device, and both parts run beside
// each other.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/cut_rows.hpp>
#include <inlay/exec/schedule/run.hpp>

#include "tests/exec/support/recorded_passes.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

index channels_of_first(const GraphStep& step) { return channel_panel * (1 + step.width / (3 * channel_panel)); }

// The rows of what a linear writes.
struct Rows {
  explicit Rows(const GraphStep& step) {
    for (const Access& access : step.accesses)
      if (access.writes) {
        begin = reinterpret_cast<std::byte*>(access.begin);
        period = static_cast<std::size_t>(access.rows == step.rows ? access.period : access.span / step.rows);
        element = static_cast<std::size_t>(access.rows * access.span / step.rows / step.width);
      }
  }
  std::byte* begin = nullptr;
  std::size_t period = 0, element = 0;
};

// One after the other; of each linear the first channels by the one, the others by the other.
template <class First, class Second>
std::vector<std::byte> expected(RecordedPasses& passes, First& first, Second& second, index& cut) {
  passes.reset();
  for (const GraphStep& step : std::as_const(passes.graph()).steps()) {
    EXPECT_TRUE(ok(first.run(step)));
    if (!step.has_channels() || channels_of_first(step) >= step.width) continue;
    const Rows rows(step);
    const std::size_t bytes = static_cast<std::size_t>(channels_of_first(step)) * rows.element;
    std::vector<std::byte> kept;
    for (index row = 0; row < step.rows; ++row) {
      const std::byte* const at = rows.begin + static_cast<std::size_t>(row) * rows.period;
      kept.insert(kept.end(), at, at + bytes);
    }
    EXPECT_TRUE(ok(second.run(step)));
    for (index row = 0; row < step.rows; ++row)
      std::memcpy(rows.begin + static_cast<std::size_t>(row) * rows.period,
                  kept.data() + static_cast<std::size_t>(row) * bytes, bytes);
    ++cut;
  }
  return passes.contents();
}

TEST(row_cuts, each_channel_has_the_bits_of_its_device) {
  ModelConfig biased = tiny();
  biased.qkv_bias = true;
  for (const auto& [config, type] : {std::pair(biased, "w4a16"), std::pair(tiny(), "f16"), std::pair(biased, "int8"),
                                     std::pair(tiny_mixture(), "w4a16")}) {
    SCOPED_TRACE(type);
    RecordedPasses passes(config, type, DType::f16);
    StepRunner reference{Reference()};
    StepRunner vectors{Cpu(serial())};
    index cut = 0;
    const auto bits = expected(passes, reference, vectors, cut);
    std::vector<RowCut> cuts;
    for (index step = 0; step < passes.graph().size(); ++step)
      if (const GraphStep& each = passes.graph().steps()[static_cast<std::size_t>(step)];
          each.has_channels() && channels_of_first(each) < each.width)
        cuts.push_back({step, channels_of_first(each), 1});
    ASSERT_GE(std::ssize(cuts), 12);
    ASSERT_EQ(std::ssize(cuts), cut);
    const index steps = passes.graph().size();
    std::vector<std::size_t> placement(static_cast<std::size_t>(steps), 0);
    ASSERT_TRUE(ok(cut_rows(passes.graph(), placement, cuts)));
    EXPECT_EQ(passes.graph().size(), steps + cut);
    const Edges edges = Edges::of(passes.graph().accesses());
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      const index first = cuts[i].step + static_cast<index>(i);
      EXPECT_FALSE(edges.precedes(first, first + 1)) << "the parts of step " << cuts[i].step << " wait for each other";
    }
    CpuDevice one({.name = "one"}, computed_by(Reference())), other({.name = "other"}, computed_by(Cpu(serial())));
    Device* const devices[] = {&one, &other};
    DeviceThreads threads(devices);
    passes.reset();
    DeviceTimeline timeline;
    ASSERT_TRUE(ok(run_steps({.graph = passes.graph(), .edges = edges, .devices = devices, .placement = placement},
                             threads, timeline)));
    EXPECT_EQ(passes.contents(), bits);
  }
}

TEST(row_cuts, what_cannot_be_cut_is_refused) {
  RecordedPasses passes(tiny_mixture(), "f32", DType::f16, {{{0, 3, true}}});
  index linear = 0, mixture = 0, norm = 0;
  for (index step = 0; step < passes.graph().size(); ++step) {
    const GraphStep& each = passes.graph().steps()[static_cast<std::size_t>(step)];
    if (each.name == "rms_norm") norm = step;
    if (each.name == "linear") (each.has_channels() ? linear : mixture) = step;
  }
  const index width = passes.graph().steps()[static_cast<std::size_t>(linear)].width, steps = passes.graph().size();
  std::vector<std::size_t> placement(static_cast<std::size_t>(steps), 0);
  const auto refused = [&](const std::vector<RowCut>& cuts) {
    return std::string(cut_rows(passes.graph(), placement, cuts).message());
  };
  const std::string all = std::to_string(steps - 1);
  EXPECT_EQ(refused({{steps, 16, 1}}), "cuts[0].step is " + std::to_string(steps) + "; it must be in 0.." + all);
  EXPECT_EQ(refused({{linear, 16, 1}, {linear, 32, 1}}),
            "cuts[1].step is " + std::to_string(linear) + "; it must be in " + std::to_string(linear + 1) + ".." + all);
  EXPECT_EQ(refused({{norm, 16, 1}}),
            "cuts[0].step is " + std::to_string(norm) + ", rms_norm; it must be a linear of one weight for all rows");
  ASSERT_GT(mixture, 0);
  EXPECT_EQ(refused({{mixture, 16, 1}}),
            "cuts[0].step is " + std::to_string(mixture) + ", linear; it must be a linear of one weight for all rows");
  for (const index at : {index{0}, index{-16}, index{8}, width, width + 11})
    EXPECT_EQ(refused({{linear, at, 1}}), "cuts[0].at is " + std::to_string(at) +
                                              "; it must be a multiple of 16 in 1.." + std::to_string(width - 1));
  placement.pop_back();
  EXPECT_NE(refused({}).find("one for each step"), std::string::npos);
  EXPECT_EQ(passes.graph().size(), steps);
}

}  // namespace
}  // namespace inlay::exec::test
