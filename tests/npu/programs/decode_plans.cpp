// Which template of decode attention is the best changes with the group and the shape, and an estimate is the time of
// the log that the program leaves with data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>

#include "npu_kernels/attention/attend.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/random_tensors.hpp"
#include "tests/npu/programs/shares.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/estimate/estimate.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

namespace {

struct Extents {
  index sequences, heads, cache_heads, dim, length;
};

// A token behind a cache whose heads' tokens are one run, all in f16.
IncreFlashAttentionShape decode(const Extents& e) {
  return {.sequences = e.sequences,
          .heads = e.heads,
          .kv_heads = e.cache_heads,
          .dim = e.dim,
          .length = e.length,
          .is_head_major = true};
}

// A sixth of ascend-a2-like: four cores with their part of the bandwidth.
Device four_cores() {
  auto device = load_device(inlay::test::source_path("tile_machine/devices/ascend-a2-like.json"));
  EXPECT_TRUE(device) << device.error().message();
  constexpr std::uint32_t cores = 4;
  device->dram_bytes_per_cycle *= static_cast<double>(cores) / device->cores;
  device->cores = cores;
  return *std::move(device);
}

struct Choice {
  AttentionTemplate by;
  double cycles;
};

// The quickest first.
std::vector<Choice> choices_of(const Device& device, const Extents& e) {
  AbsentTensors tensors;
  const IncreFlashAttention<Host> op = decode(e).make(tensors);
  PlanningMemory memory(device, device.cores);
  const AttentionCall problem = attention_call(memory, attention_problem(op));
  std::vector<Choice> choices;
  for (const AttentionTemplate& by : templates_of(problem, device, device.cores)) {
    const Program program = attend_by(memory, problem, {}, by);
    if (!program.body) continue;
    const auto build = [&](GlobalMemory& other) {
      return attend_by(other, attention_call(other, attention_problem(op)), {}, by).body;
    };
    const auto estimated = estimate(device, {.name = "decode",
                                             .sizes = {},
                                             .types = {},
                                             .problem = program.problem,
                                             .build = build,
                                             .launch = program.launch});
    EXPECT_TRUE(estimated) << estimated.error().message();
    if (estimated) choices.push_back({by, estimated->cycles});
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.cycles < b.cycles; });
  return choices;
}

// The best with the matrix unit, or of the vector units alone; null: it does not fit.
const Choice* best(const std::vector<Choice>& choices, bool matrix) {
  const auto found =
      std::find_if(choices.begin(), choices.end(), [&](const Choice& choice) { return choice.by.matrix == matrix; });
  return found == choices.end() ? nullptr : &*found;
}
double least(const std::vector<Choice>& choices, bool matrix) {
  const Choice* choice = best(choices, matrix);
  return choice == nullptr ? std::numeric_limits<double>::infinity() : choice->cycles;
}

// docs/npu.md has the estimates of these shapes.
std::vector<Choice> shown_choices_of(const Device& device, const Extents& e) {
  const auto choices = choices_of(device, e);
  std::ifstream stream(inlay::test::source_path("docs/npu.md"));
  const std::string page{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  std::ostringstream row;
  row << "| " << e.sequences << " x " << e.heads << " x " << e.cache_heads << " x " << e.dim << " x " << e.length
      << " |";
  for (const bool matrix : {true, false}) {
    const Choice* choice = best(choices, matrix);
    if (choice == nullptr)
      row << " - |";
    else
      row << " " << std::llround(choice->cycles) << " in " << choice->by.splits << " |";
  }
  EXPECT_NE(page.find(row.str()), page.npos) << "docs/npu.md does not have " << row.str();
  return choices;
}

TEST(DecodePlans, TheBestChangesWithTheGroup) {
  const Device device = four_cores();
  const Extents one{4, 8, 8, 64, 128}, two{4, 16, 8, 64, 128}, many{1, 48, 1, 128, 2048};
  const auto alone = shown_choices_of(device, one);
  EXPECT_FALSE(alone.front().by.matrix) << "one row: the vector units need not wait for a matrix unit";
  EXPECT_GT(least(alone, true), 1.1 * least(alone, false));

  const auto group_of_2 = shown_choices_of(device, two);
  EXPECT_GT(least(group_of_2, false), 1.1 * group_of_2.front().cycles) << "two passes over each tile";

  const auto group_of_48 = shown_choices_of(device, many);
  EXPECT_TRUE(group_of_48.front().by.matrix) << "48 passes over each tile";
  EXPECT_GT(least(group_of_48, false), 5 * group_of_48.front().cycles);
}

// As many rows a group in both of a pair.
TEST(DecodePlans, TheBestChangesWithTheShape) {
  const Device device = four_cores();
  const Extents few{2, 16, 8, 64, 128}, single{1, 2, 1, 128, 256}, longer{8, 8, 8, 128, 512};
  const auto short_ones = shown_choices_of(device, few), alone = shown_choices_of(device, single);
  EXPECT_FALSE(short_ones.front().by.matrix) << "an item for each vector unit, over before a flag comes";
  EXPECT_GT(least(short_ones, true), 1.09 * short_ones.front().cycles);
  EXPECT_TRUE(alone.front().by.matrix) << "one vector unit has all the work";
  EXPECT_GT(least(alone, false), 1.5 * alone.front().cycles);
  EXPECT_TRUE(shown_choices_of(device, longer).front().by.matrix) << "one row, and many tiles";
}

TEST(DecodePlans, AnEstimateIsTheTimeWithData) {
  const Device device = four_cores();
  const Extents e{2, 8, 2, 64, 600};
  for (const Choice& choice : choices_of(device, e)) {
    RandomTensors tensors;
    const IncreFlashAttention<Host> op = decode(e).make(tensors);
    Machine machine(device);
    const Program program = attend_by(machine, attention_call(machine, attention_problem(op)), {}, choice.by);
    const Outcome outcome = machine.run(program.body, program.launch);
    for (const Report& report : outcome.reports) ADD_FAILURE() << report.message;
    const auto time = time_events(outcome.log, device);
    ASSERT_TRUE(time) << time.error().message();
    EXPECT_EQ(to_cycles(time->makespan), choice.cycles) << choice.by.matrix << choice.by.splits;
  }
}

// The vector units alone wait for nobody: their times do not know the flight of a flag, the others' do.
TEST(DecodePlans, FlagsThatAreSlowerCostThePlansThatUseThem) {
  Device device = four_cores();
  const Extents e{1, 8, 2, 128, 1024};
  const auto before = choices_of(device, e);
  device.sync.stream_cycles *= 8;
  const auto after = choices_of(device, e);
  EXPECT_EQ(least(after, false), least(before, false));
  EXPECT_GT(least(after, true), 1.2 * least(before, true));
}

}  // namespace
}  // namespace inlay::npu
