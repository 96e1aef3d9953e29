// The shares of the problem's roofline that operators reach on the shapes of measure/npu_cases.hpp, and the bytes
// that they move. The model is deterministic: a share that falls is a change of a program, a device or the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "measure/npu_cases.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/tests/time/logs.hpp"
#include "tile_machine/time/roofline.hpp"

namespace inlay::npu {
namespace {

Device device_of(const Case& c) {
  auto device = load_device(inlay::test::source_path("tile_machine/devices/") + std::string(c.device) + ".json");
  if (!device) ADD_FAILURE() << device.error().message();
  return device ? *std::move(device) : Device{};
}

// Inputs and outputs once.
std::uint64_t compulsory_bytes(const Case& c) {
  constexpr index half = 2;
  const auto size = [&](std::size_t i) { return c.size[i]; };
  if (c.op == "incre_flash_attention")
    return static_cast<std::uint64_t>(2 * size(0) * (size(2) * size(4) + size(1)) * size(3) * half);
  const index element = c.op == "linear" ? half : 1;
  return static_cast<std::uint64_t>((size(0) + size(1)) * size(2) * element + size(0) * size(1) * half);
}

// What the problem does not count: scales of rows and columns. Nobody asks for the sums of columns, as no row of
// these has a zero point.
std::uint64_t scale_bytes(const Case& c) {
  return c.op == "linear_int8" ? static_cast<std::uint64_t>((c.size[0] + c.size[1]) * 4) : 0;
}

// What the case must move, where that is counted from its shape alone.
std::optional<std::uint64_t> counted_bytes(const Case& c, const Device& device) {
  const bool through_memory = device.path(Space::accumulator, Space::vector) == nullptr;
  const auto size = [&](std::size_t i) { return static_cast<std::uint64_t>(c.size[i]); };
  if (c.op == "linear" && device.feeds_are_views() && size(0) * size(2) <= device.memory(Space::staging).bytes / 4)
    return compulsory_bytes(c) + (device.cores - 1) * size(0) * size(2) * 2;  // each core has all rows of x
  if (c.op != "incre_flash_attention" || (through_memory && size(0) == 1)) return std::nullopt;
  if (!through_memory) return compulsory_bytes(c);
  // Not split: scores in f32, weights in two halves of f16 and for each tile products in f32, there and back.
  constexpr std::uint64_t tile = 384;
  const std::uint64_t rows = size(0) * size(1), tiles = (size(4) + tile - 1) / tile;
  return compulsory_bytes(c) + 2 * rows * (size(4) * (4 + 2 * 2) + tiles * size(3) * 4);
}

// The row of docs/npu.md that states the case, up to the stalls.
std::string row_of(const Case& c, const Roofline& roof) {
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, " | %.0f | %.1f%% | %.1f%% of %s | %.1f%% | %.1f%% | ", roof.makespan,
                100 * roof.problem_share(), 100 * roof.share(), roof.bounds[roof.bounding].resource.c_str(),
                100 * roof.dma_share(), 100 * roof.matrix_share());
  std::string row = "| " + describe(c);
  row.replace(row.rfind(" on "), std::string_view(" on ").size(), " | ");
  return row + numbers;
}

std::uint64_t moved_by(const EventLog& log, const Device& device) {
  std::uint64_t moved = 0;
  for (const Entry& entry : log.entries)
    if (entry.work.unit == Unit::dma && device.paths[entry.work.path].dram) moved += entry.work.bytes;
  return moved;
}

TEST(Targets, SharesOfTheProblemAreHeld) {
  std::ifstream stream(inlay::test::source_path("docs/npu.md"));
  const std::string page{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  int counted_cases = 0;
  for (const Case& c : cases()) {
    const Device device = device_of(c);
    const auto [outcome, problem] = run(c, device);
    EXPECT_TRUE(outcome.ok()) << describe(c) << ": " << outcome.reports[0].message;
    const auto time = time_events(outcome.log, device);
    ASSERT_TRUE(time) << describe(c) << ": " << time.error().message();
    for (const LaneTime& lane : time->lanes) EXPECT_EQ(accounted(lane), time->makespan) << describe(c);
    EXPECT_EQ(problem.bytes, compulsory_bytes(c)) << describe(c);
    const std::uint64_t moved = moved_by(outcome.log, device);
    EXPECT_GE(moved, problem.bytes) << describe(c);
    if (const auto counted = counted_bytes(c, device)) {
      EXPECT_EQ(moved, *counted) << describe(c);
      ++counted_cases;
    }
    // All of these problems fit into an L2 of 192 MB: nothing is moved twice, and no workspace at all.
    EXPECT_EQ(time->dram_bytes, device.l2.bytes > 0 ? compulsory_bytes(c) + scale_bytes(c) : moved) << describe(c);
    const Roofline roof = roofline(outcome.log, device, *time, problem);
    EXPECT_LE(roof.problem_share(), 1) << describe(c);
    EXPECT_GE(roof.problem_share(), c.floor) << describe(c) << "\n" << summary(outcome.log, device, *time, problem);
    EXPECT_NE(page.find(row_of(c, roof)), page.npos) << "docs/npu.md does not have " << row_of(c, roof);
  }
  EXPECT_EQ(counted_cases, 6);
}

TEST(Targets, EveryOperatorHasItsTargetOnTwoDevices) {
  const auto devices = [](std::string_view op, double floor) {
    std::vector<std::string_view> names;
    for (const Case& c : cases())
      if (c.op == op && c.floor >= floor && std::find(names.begin(), names.end(), c.device) == names.end())
        names.push_back(c.device);
    return names.size();
  };
  EXPECT_GE(devices("linear", 0.75), 2u);
  EXPECT_GE(devices("linear_int8", 0.75), 2u);
  EXPECT_GE(devices("incre_flash_attention", 0.85), 2u);
}

// What the targets' runs leave out changes no time: the log without arithmetic is the log with it.
TEST(Targets, ARunWithoutArithmeticHasTheSameTimes) {
  for (Case c : cases()) {
    for (index& extent : c.size) extent = std::min<index>(extent, 192);
    const Device device = device_of(c);
    const auto with = time_events(run(c, device, true).outcome.log, device),
               without = time_events(run(c, device, false).outcome.log, device);
    ASSERT_TRUE(with && without);
    EXPECT_EQ(with->makespan, without->makespan) << describe(c);
    EXPECT_EQ(with->spans.size(), without->spans.size());
  }
}

}  // namespace
}  // namespace inlay::npu
