// Linears that two devices compute together, by channels, by tokens, in passes and by both: each element has the bits
// of its device, and the parts run beside each other.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/run.hpp>

#include "tests/exec/support/cut_passes.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

TEST(linear_cuts, each_element_has_the_bits_of_its_device) {
  ModelConfig biased = tiny();
  biased.qkv_bias = true;
  for (const auto& [config, type] : {std::pair(biased, "w4a16"), std::pair(tiny(), "f16"), std::pair(biased, "int8"),
                                     std::pair(tiny_mixture(), "w4a16")})
    for (const char* words : {"rows:0.4", "sequence:0.3", "multi-sequence:0.8", "hybrid"}) {
      SCOPED_TRACE(std::string(type) + " " + words);
      RecordedPasses passes(config, type, DType::f16);
      StepRunner reference{Reference()};
      StepRunner vectors{Cpu(serial())};
      CutPasses cut(passes, words);
      ASSERT_GE(cut.cuts(), 12);
      const auto bits = cut.expected(reference, vectors);
      const index steps = passes.graph().size();
      ASSERT_TRUE(ok(cut.rewrite()));
      EXPECT_EQ(passes.graph().size(), steps + cut.more_steps());
      const Edges edges = Edges::of(passes.graph().accesses());
      cut.expect_parts_side_by_side(edges);
      CpuDevice one({.name = "one"}, computed_by(Reference())), other({.name = "other"}, computed_by(Cpu(serial())));
      Device* const devices[] = {&one, &other};
      DeviceThreads threads(devices);
      passes.reset();
      DeviceTimeline timeline;
      ASSERT_TRUE(
          ok(run_steps({.graph = passes.graph(), .edges = edges, .devices = devices, .placement = cut.placement()},
                       threads, timeline)));
      EXPECT_EQ(passes.contents(), bits);
    }
}

TEST(linear_cuts, what_cannot_be_cut_is_refused) {
  RecordedPasses passes(tiny_mixture(), "f32", DType::f16, {{{0, 3, true}}});
  index linear = 0, mixture = 0, norm = 0;
  for (index step = 0; step < passes.graph().size(); ++step) {
    const GraphStep& each = passes.graph().steps()[static_cast<std::size_t>(step)];
    if (each.name == "rms_norm") norm = step;
    if (each.name == "linear" && !each.has_parts()) mixture = step;
    if (each.has_parts() && each.rows == 3 && each.width > 32) linear = step;
  }
  const index width = passes.graph().steps()[static_cast<std::size_t>(linear)].width, steps = passes.graph().size();
  std::vector<std::size_t> placement(static_cast<std::size_t>(steps), 0);
  const auto refused = [&](const std::vector<LinearCut>& cuts) {
    return std::string(cut_linears(passes.graph(), placement, cuts).message());
  };
  // Of three tokens; the first parts are right.
  const auto parts = [&](std::vector<LinearPart> list) {
    LinearCut cut{linear, {}};
    for (const LinearPart& part : list) cut.parts.push_back({part, 1});
    return refused({cut});
  };
  const std::string all = std::to_string(steps - 1), n = std::to_string(width), at = std::to_string(linear);
  EXPECT_EQ(refused({{steps, {}}}), "cuts[0].step is " + std::to_string(steps) + "; it must be in 0.." + all);
  const LinearCut whole{linear, {{{0, 3, 0, width}, 1}}};
  EXPECT_EQ(refused({whole, whole}),
            "cuts[1].step is " + at + "; it must be in " + std::to_string(linear + 1) + ".." + all);
  for (const index step : {norm, mixture})
    EXPECT_EQ(refused({{step, {}}}), "cuts[0].step is " + std::to_string(step) + ", " +
                                         std::string(passes.graph().steps()[static_cast<std::size_t>(step)].name) +
                                         "; it must be a linear of one weight for all tokens");
  ASSERT_GT(mixture, 0);
  for (const auto& [first, count] : {std::pair<index, index>(0, 4), {3, 1}, {-1, 2}, {0, 0}, {1, -1}})
    EXPECT_EQ(parts({{first, count, 0, width}}), "cuts[0].parts[0] has tokens " + std::to_string(first) + " and " +
                                                     std::to_string(count) +
                                                     " more; they must be of the 3 of the step");
  for (const auto& [first, count] : {std::pair<index, index>(8, width - 8), {0, width + 1}, {16, width}, {-16, 16}})
    EXPECT_EQ(parts({{0, 3, first, count}}), "cuts[0].parts[0] has channels " + std::to_string(first) + " and " +
                                                 std::to_string(count) + " more; they must be of the " + n +
                                                 " of the step and begin at a multiple of 16");
  EXPECT_EQ(parts({{0, 2, 0, width}, {1, 2, 16, width - 16}}),
            "cuts[0].parts[1] has elements of parts[0]; it must have its own");
  EXPECT_EQ(parts({{0, 2, 0, width}, {2, 1, 16, width - 16}}),
            "cuts[0] has parts of " + std::to_string(3 * width - 16) + " elements; they must have all " +
                std::to_string(3 * width));
  placement.pop_back();
  EXPECT_NE(refused({}).find("one for each step"), std::string::npos);
  EXPECT_EQ(passes.graph().size(), steps);
}

}  // namespace
}  // namespace inlay::exec::test
