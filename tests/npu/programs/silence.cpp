// Operators at the sizes for which their times are stated, all cores: the checker is silent.
#include <gtest/gtest.h>

#include "measure/npu_cases.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/check/checker.hpp"

namespace inlay::npu {
namespace {

TEST(CheckerOnPrograms, SilentAtFullSize) {
  std::size_t entries = 0;
  for (const Case& c : cases()) {
    const auto device =
        load_device(inlay::test::source_path("tile_machine/devices/") + std::string(c.device) + ".json");
    ASSERT_TRUE(device) << device.error().message();
    const Outcome outcome = run(c, *device).outcome;
    for (const Report& report : outcome.reports) ADD_FAILURE() << describe(c) << ": " << report.message;
    for (const Report& report : check(outcome.log, *device)) ADD_FAILURE() << describe(c) << ": " << report.message;
    entries += outcome.log.entries.size();
  }
  EXPECT_GT(entries, 100000u);
}

}  // namespace
}  // namespace inlay::npu
