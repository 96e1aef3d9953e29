// Words of where operators are placed, and what they name.
#include <gtest/gtest.h>

#include <string>

#include <inlay/exec/device/placement.hpp>

#include "tests/exec/support/recorded_passes.hpp"

namespace inlay::exec::test {
namespace {

TEST(placement, words_name_steps) {
  RecordedPasses passes(tiny(), "f32", DType::f16, {{{0, 5, true}}});
  const auto count = [&](const std::string& words) {
    const auto placement = Placement::parse(words, "npu", 2);
    EXPECT_TRUE(placement.has_value()) << placement.error().message();
    index named = 0;
    for (const GraphStep& step : passes.graph().steps()) named += placement->is_second(step);
    return named;
  };
  const index steps = passes.graph().size(), linears = count("linears=npu"), first = count("layers:0=npu");
  EXPECT_EQ(count("all=npu"), steps);
  EXPECT_EQ(count("all=cpu"), 0);
  EXPECT_EQ(linears, 2 * (first - count("layers:0=npu,linears=cpu")) + 1) << "those of both layers, and the head";
  EXPECT_EQ(count("attention=npu"), 2);
  EXPECT_EQ(count("layers:0-1=npu"), 2 * first);
  EXPECT_EQ(count("layers:0-1=npu"), steps - 4);  // rope_table, the embedding, the last norm and the head
  EXPECT_EQ(count("all=npu,linears=cpu"), steps - linears);
  EXPECT_EQ(count("linears=cpu,all=npu"), steps) << "the later one counts";
}

TEST(placement, what_names_nothing_is_refused) {
  const auto refused = [](const char* words) {
    const auto placement = Placement::parse(words, "cl", 2);
    return placement ? std::string("nothing") : std::string(placement.error().message());
  };
  EXPECT_EQ(refused("linears"), "place has 'linears'; it must be WHAT=DEVICE");
  EXPECT_EQ(refused("linears=npu"), "place has 'linears=npu'; it must name cpu or cl as the device");
  EXPECT_EQ(refused("norms=cl"), "place has 'norms=cl'; it must name all, linears, attention or layers:FIRST-LAST");
  EXPECT_EQ(refused("linears=cl,"), "place has ''; it must be WHAT=DEVICE");
  for (const std::string range : {"1-0", "0-2", "2", "-1", "", "0-", "0-1x", "99999999999999999999"})
    EXPECT_EQ(refused(("layers:" + range + "=cl").c_str()),
              "place has 'layers:" + range + "=cl'; it must be layers:FIRST-LAST=DEVICE, in 0..1");
}

}  // namespace
}  // namespace inlay::exec::test
