// Which plan of decode attention is the best changes with the group and the shape, and a price is the time of the tape
// that the program leaves with data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>

#include "npu_kernels/attention/decode_price.hpp"
#include "npu_kernels/machine/time/timing.hpp"
#include "tests/machine/programs/decode_problem.hpp"

namespace inlay::npu {
namespace {

struct Extents {
  index sequences, heads, cache_heads, dim, length;
};

// Types and extents only: there is no data.
DecodeOperands operands(const Extents& e) {
  const auto rows = [&](index count) {
    Tensor tensor;
    tensor.dtype = DType::f16;
    tensor.shape = {count, e.dim};
    tensor.pitch = e.dim;
    return tensor;
  };
  DecodeOperands op;
  op.q = op.out = rows(e.sequences * e.heads);
  op.k = op.v = rows(e.sequences * e.cache_heads * e.length);
  op.sequences = e.sequences;
  op.heads = e.heads;
  op.cache_heads = e.cache_heads;
  op.length = e.length;
  op.scale = 1 / std::sqrt(static_cast<float>(e.dim));
  return op;
}

// A sixth of ascend-a2-like: four cores with their part of the bandwidth.
Device four_cores() {
  auto device = load_device(INLAY_SOURCE_DIR "/devices/ascend-a2-like.json");
  EXPECT_TRUE(device) << device.error().message();
  constexpr std::uint32_t cores = 4;
  device->dram_bytes_per_cycle *= static_cast<double>(cores) / device->cores;
  device->cores = cores;
  return *std::move(device);
}

std::vector<DecodeChoice> choices_of(const Device& device, const Extents& e) {
  auto choices = price_decode(device, operands(e));
  EXPECT_TRUE(choices) << choices.error().message();
  return choices ? *std::move(choices) : std::vector<DecodeChoice>{};
}

// The best of a plan; none: it does not fit, or is another by another name.
const DecodeChoice* best(const std::vector<DecodeChoice>& choices, DecodePlan plan) {
  const auto found =
      std::find_if(choices.begin(), choices.end(), [&](const auto& choice) { return choice.plan == plan; });
  return found == choices.end() ? nullptr : &*found;
}
double least(const std::vector<DecodeChoice>& choices, DecodePlan plan) {
  const DecodeChoice* choice = best(choices, plan);
  return choice == nullptr ? std::numeric_limits<double>::infinity() : choice->cycles;
}

// docs/npu.md has the prices of these shapes.
void expect_on_the_page(const Extents& e, const std::vector<DecodeChoice>& choices) {
  std::ifstream stream(INLAY_SOURCE_DIR "/docs/npu.md");
  const std::string page{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  std::ostringstream row;
  row << "| " << e.sequences << " x " << e.heads << " x " << e.cache_heads << " x " << e.dim << " x " << e.length
      << " |";
  for (DecodePlan plan : decode_plans) {
    const DecodeChoice* choice = best(choices, plan);
    if (choice == nullptr)
      row << " - |";
    else
      row << " " << std::llround(choice->cycles) << " in " << choice->splits << " |";
  }
  EXPECT_NE(page.find(row.str()), page.npos) << "docs/npu.md does not have " << row.str();
}

std::vector<DecodeChoice> shown_choices_of(const Device& device, const Extents& e) {
  auto choices = choices_of(device, e);
  expect_on_the_page(e, choices);
  return choices;
}

TEST(DecodePlans, TheBestChangesWithTheGroup) {
  const Device device = four_cores();
  const auto alone = shown_choices_of(device, {8, 8, 8, 128, 512});
  EXPECT_EQ(alone.front().plan, DecodePlan::vector) << "one row: the vector units need not wait for a matrix unit";
  EXPECT_GT(least(alone, DecodePlan::c1v1), 1.025 * least(alone, DecodePlan::vector));

  const auto group_of_4 = shown_choices_of(device, {1, 16, 4, 128, 1024});
  EXPECT_GT(least(group_of_4, DecodePlan::vector), 1.5 * group_of_4.front().cycles) << "four passes over each tile";

  const auto group_of_48 = shown_choices_of(device, {1, 48, 1, 128, 2048});
  EXPECT_EQ(group_of_48.front().plan, DecodePlan::c1v2) << "the softmax of 48 rows bounds one vector core";
  EXPECT_GT(least(group_of_48, DecodePlan::c1v1), 1.05 * group_of_48.front().cycles);
}

// Two rows a group in both.
TEST(DecodePlans, TheBestChangesWithTheShape) {
  const Device device = four_cores();
  const auto short_ones = shown_choices_of(device, {2, 16, 8, 64, 128}),
             alone = shown_choices_of(device, {1, 2, 1, 128, 256});
  EXPECT_EQ(short_ones.front().plan, DecodePlan::vector) << "an item for each vector unit, over before a flag has come";
  EXPECT_GT(least(short_ones, DecodePlan::c1v1), 1.1 * short_ones.front().cycles);
  EXPECT_NE(alone.front().plan, DecodePlan::vector) << "one vector unit has all the work";
  EXPECT_GT(least(alone, DecodePlan::vector), 1.5 * alone.front().cycles);
}

TEST(DecodePlans, APriceIsTheTimeWithData) {
  const Device device = four_cores();
  for (const DecodeChoice& choice : choices_of(device, {2, 8, 2, 64, 600})) {
    DecodeProblem problem(2, 8, 2, 64, 600, choice.splits);
    Machine machine(device);
    const DecodeOperands op = problem.on(machine, choice.plan);
    const Outcome outcome = machine.run([&](Core& core) { decode_attention(core, op); }, op.launch());
    expect_no_reports(outcome.reports, std::string(name(choice.plan)));
    const auto time = time_tape(outcome.tape, device);
    ASSERT_TRUE(time) << time.error().message();
    EXPECT_EQ(to_cycles(time->makespan), choice.cycles) << name(choice.plan) << " in " << choice.splits;
  }
}

// The vector units alone wait for nobody: their times do not know the flight of a flag, the others' do.
TEST(DecodePlans, FlagsThatAreSlowerCostThePlansThatUseThem) {
  Device device = four_cores();
  const Extents extents{1, 8, 2, 128, 1024};
  const auto before = choices_of(device, extents);
  device.sync.stream_cycles *= 8;
  const auto after = choices_of(device, extents);
  EXPECT_EQ(least(after, DecodePlan::vector), least(before, DecodePlan::vector));
  for (DecodePlan plan : {DecodePlan::c1v1, DecodePlan::c1v2})
    EXPECT_GT(least(after, plan), 1.2 * least(before, plan)) << name(plan);
}

TEST(DecodePlans, AShapeThatFitsNowhereIsRefusedByName) {
  const auto choices = price_decode(four_cores(), operands({1, 1, 1, 1 << 16, 64}));
  ASSERT_FALSE(choices);
  EXPECT_NE(choices.error().message().find("needs"), std::string_view::npos) << choices.error().message();
}

}  // namespace
}  // namespace inlay::npu
