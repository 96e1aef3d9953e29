// The shares of the bounding resource that the worked programs reach, and the bytes that they move. The
// model is deterministic: a share that falls is a change of a program, a device or the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "measure/machine_cases.hpp"
#include "npu_kernels/attention/decode_tiles.hpp"
#include "npu_kernels/linear/gemm.hpp"
#include "npu_kernels/machine/arithmetic/rounding.hpp"
#include "npu_kernels/machine/time/roofline.hpp"
#include "tests/machine/time/tapes.hpp"

namespace inlay::npu {
namespace {

Device device_of(const Case& c) {
  auto device = load_device(std::string(INLAY_SOURCE_DIR) + "/devices/" + std::string(c.device) + ".json");
  if (!device) ADD_FAILURE() << device.error().message();
  return device ? *std::move(device) : Device{};
}

GemmTiles tiles_of(const Case& c, const Device& device) {
  const auto tensor = [](DType dtype, index rows, index columns) {
    Tensor result;
    result.dtype = dtype;
    result.shape = {rows, columns};
    return result;
  };
  const GemmOperands op{tensor(c.dtype, c.size[0], c.size[2]), tensor(c.dtype, c.size[1], c.size[2]),
                        tensor(c.dtype == DType::i8 ? DType::i32 : DType::f32, c.size[0], c.size[1])};
  return gemm_tiles(device, device.cores, op);
}

// Bytes of global memory that the case must move, from its shape alone.
std::uint64_t analytic_bytes(const Case& c, const Device& device) {
  const index element = byte_size(c.dtype, 1), wide = 4, both_ways = 2;
  if (c.program == "gemm") {  // a once for each column of blocks, b once for each row of blocks
    const index m = c.size[0], n = c.size[1], k = c.size[2];
    const GemmTiles tiles = tiles_of(c, device);
    const index loads = m * ceil_div(n, tiles.block_n) + n * ceil_div(m, tiles.block_m);
    return static_cast<std::uint64_t>(loads * k * element + m * n * wide);
  }
  const index sequences = c.size[0], heads = c.size[1], caches = c.size[2], dim = c.size[3], length = c.size[4],
              splits = c.size[5], group = heads / caches;
  index bytes = both_ways * sequences * (caches * length + heads) * dim * element;  // k and v, q and out
  DecodeOperands op;
  op.q.dtype = c.dtype;
  op.q.shape.columns = dim;
  op.heads = heads;
  op.cache_heads = caches;
  op.length = length;
  op.splits = splits;
  if (splits > 1) {  // q once for each; partial sums, maxima and totals out and back
    bytes += sequences * heads * (splits - 1) * dim * element;
    bytes += both_ways * sequences * heads * splits * (dim + 2) * wide;
  }
  if (device.path(Space::accumulator, Space::vector) == nullptr) {  // scores, weights and products out and back
    const DecodeTiles t = decode_tiles(device, op);
    const index range = ceil_div(length, splits);
    index tiles = 0;
    for (index begin = 0; begin < length; begin += range) tiles += ceil_div(std::min(range, length - begin), t.tokens);
    bytes += both_ways * sequences * heads * length * (wide + element);
    bytes += both_ways * sequences * caches * tiles * group * dim * wide;
  }
  return static_cast<std::uint64_t>(bytes);
}

// Inputs and outputs once.
std::uint64_t compulsory_bytes(const Case& c) {
  const index element = byte_size(c.dtype, 1), wide = 4;
  index bytes = 0;
  if (c.program == "gemm")
    bytes = (c.size[0] + c.size[1]) * c.size[2] * element + c.size[0] * c.size[1] * wide;
  else
    bytes = 2 * c.size[0] * (c.size[2] * c.size[4] + c.size[1]) * c.size[3] * element;
  return static_cast<std::uint64_t>(bytes);
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

TEST(Targets, SharesOfTheBoundAreHeld) {
  std::ifstream stream(INLAY_SOURCE_DIR "/docs/npu.md");
  const std::string page{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  for (const Case& c : cases()) {
    const Device device = device_of(c);
    const Outcome outcome = run(c, device);
    EXPECT_TRUE(outcome.ok()) << describe(c) << ": " << outcome.reports[0].message;
    const auto time = time_tape(outcome.tape, device);
    ASSERT_TRUE(time) << describe(c) << ": " << time.error().message();
    for (const LaneTime& lane : time->lanes) EXPECT_EQ(accounted(lane), time->makespan) << describe(c);
    std::uint64_t moved = 0;
    for (const Entry& entry : outcome.tape.entries)
      if (entry.work.unit == Unit::dma && device.paths[entry.work.path].dram) moved += entry.work.bytes;
    EXPECT_EQ(moved, analytic_bytes(c, device)) << describe(c);
    EXPECT_EQ(problem_of(c).bytes, compulsory_bytes(c)) << describe(c);
    // All of these problems fit into an L2 of 192 MB: nothing is moved twice, and no workspace at all.
    EXPECT_EQ(time->dram_bytes, device.l2.bytes > 0 ? compulsory_bytes(c) : moved) << describe(c);
    const Roofline roof = roofline(outcome.tape, device, *time, problem_of(c));
    EXPECT_LE(roof.problem_share(), 1) << describe(c);
    EXPECT_GE(c.program == "gemm" ? roof.share() : roof.dma_share(), c.floor) << describe(c) << "\n"
                                                                              << summary(outcome.tape, device, *time);
    EXPECT_NE(page.find(row_of(c, roof)), page.npos) << "docs/npu.md does not have " << row_of(c, roof);
  }
}

TEST(Targets, EveryProgramHasItsTargetOnTwoDevices) {
  const auto devices = [](std::string_view program, double floor) {
    std::vector<std::string_view> names;
    for (const Case& c : cases())
      if (c.program == program && c.floor >= floor && std::find(names.begin(), names.end(), c.device) == names.end())
        names.push_back(c.device);
    return names.size();
  };
  EXPECT_GE(devices("gemm", 0.90), 2u);
  EXPECT_GE(devices("decode_attention", 0.85), 2u);
}

// What the targets' runs leave out changes no time: the tape without arithmetic is the tape with it.
TEST(Targets, ARunWithoutArithmeticHasTheSameTimes) {
  for (Case c : cases()) {
    for (index& extent : c.size) extent = std::min<index>(extent, 192);
    const Device device = device_of(c);
    const auto with = time_tape(run(c, device, true).tape, device),
               without = time_tape(run(c, device, false).tape, device);
    ASSERT_TRUE(with && without);
    EXPECT_EQ(with->makespan, without->makespan) << describe(c);
    EXPECT_EQ(with->spans.size(), without->spans.size());
  }
}

}  // namespace
}  // namespace inlay::npu
