// Cycles of the matrix unit. The oracle is SCALE-Sim 3.0.0, run by hand on these shapes; its figures stand
// below. Every value passes through a log and the timing model, not through the formula alone.
#include "tile_machine/time/matrix_cost.hpp"

#include <gtest/gtest.h>

#include "tile_machine/tests/time/logs.hpp"

namespace inlay::npu {
namespace {

Device systolic(std::uint32_t size, Dataflow dataflow) {
  Device device = round_device();
  device.matrix.systolic = true;
  device.matrix.rows = device.matrix.columns = size;
  device.matrix.dataflow = dataflow;
  return device;
}

double cycles_of(const Device& device, std::uint32_t m, std::uint32_t n, std::uint32_t k) {
  EventWriter log;
  log.mma(m, n, k);
  const auto timeline = time_events(log.log(), device);
  return timeline ? to_cycles(timeline->makespan) : -1;
}

struct Case {
  std::uint32_t size, m, n, k;
  double cycles;
};

TEST(MatrixCost, WeightStationaryIsScaleSim) {
  const Case cases[] = {
      {32, 1, 512, 512, 24319},      {32, 31, 512, 512, 31999},     {32, 32, 512, 512, 32255},
      {32, 33, 512, 512, 32511},     {32, 256, 512, 512, 89599},    {32, 33, 33, 33, 507},
      {128, 1, 1024, 1024, 24511},   {128, 128, 1024, 1024, 32639}, {128, 256, 1024, 1024, 40831},
      {128, 300, 1024, 1024, 43647}, {128, 1024, 256, 1024, 22495}, {128, 256, 2048, 4096, 326655},
  };
  for (const Case& c : cases)
    EXPECT_EQ(cycles_of(systolic(c.size, Dataflow::weight_stationary), c.m, c.n, c.k), c.cycles)
        << c.size << ": " << c.m << " x " << c.n << " x " << c.k;
}

TEST(MatrixCost, OutputStationaryIsScaleSim) {
  const Case cases[] = {
      {32, 1, 512, 512, 9183},       {32, 31, 512, 512, 9183},      {32, 32, 512, 512, 9183},
      {32, 33, 512, 512, 18367},     {32, 256, 512, 512, 73471},    {32, 33, 33, 33, 379},
      {128, 1, 1024, 1024, 10223},   {128, 128, 1024, 1024, 10223}, {128, 256, 1024, 1024, 20447},
      {128, 300, 1024, 1024, 30671}, {128, 1024, 256, 1024, 20447},
  };
  for (const Case& c : cases)
    EXPECT_EQ(cycles_of(systolic(c.size, Dataflow::output_stationary), c.m, c.n, c.k), c.cycles)
        << c.size << ": " << c.m << " x " << c.n << " x " << c.k;
}

TEST(MatrixCost, HiddenPreloadShowsOnlyTheFirst) {
  Device device = systolic(32, Dataflow::weight_stationary);
  const double exposed = cycles_of(device, 256, 512, 512);
  device.matrix.preload = Preload::hidden;
  constexpr double folds = 16 * 16;
  EXPECT_EQ(exposed - cycles_of(device, 256, 512, 512), (folds - 1) * 32);
  EXPECT_EQ(cycles_of(device, 7, 32, 32), 2 * 32 + 32 + 7 - 2 - 1) << "one fold has nothing to hide behind";
}

// F folds of at least R rows: the first one's weights, F streams of M rows, and one skew.
TEST(MatrixCost, PipelinedFoldsSeeOneSkew) {
  Device device = systolic(32, Dataflow::weight_stationary);
  device.matrix.preload = Preload::pipelined;
  constexpr double folds = 16 * 16, skew = 32 + 32 - 2;
  EXPECT_EQ(cycles_of(device, 256, 512, 512), 32 + folds * 256 + skew - 1);
  EXPECT_EQ(cycles_of(device, 4, 512, 512), 32 + (folds - 1) * 32 + 4 + skew - 1) << "the next weights take 32 cycles";
  EXPECT_EQ(cycles_of(device, 7, 32, 32), cycles_of(systolic(32, Dataflow::weight_stationary), 7, 32, 32));
  device.matrix.arrays = 4;
  EXPECT_EQ(cycles_of(device, 256, 512, 512), 32 + folds / 4 * 256 + skew - 1);
  EXPECT_EQ(cycles_of(device, 256, 96, 32), cycles_of(device, 256, 32, 32)) << "three folds at once";
  EXPECT_EQ(peak_products(device.matrix, device.matrix.rates[0]), 4 * 32 * 32);
}

TEST(MatrixCost, WeightsAreBroughtInOnceForAllRows) {
  Device device = round_device();
  device.matrix.rates[0].weight_cycles = 5;
  device.matrix.rates[0].turn_cycles = 3;
  EXPECT_EQ(cycles_of(device, 16, 16, 16), 5 + 1);
  EXPECT_EQ(cycles_of(device, 160, 32, 48), 2 * 3 * (5 + 10));
  EXPECT_EQ(cycles_of(device, 32, 160, 48), 10 * 3 * (5 + 2)) << "m and n are not alike";
  EventWriter log;
  log.entry(log.mma(160, 32, 48)).work.turned = true;
  EXPECT_EQ(to_cycles(timed(log.log(), device).makespan), 2 * 3 * (5 + 3 + 10));
}

TEST(MatrixCost, TheOrderOfOperandsMatters) {
  // C = A B against C^T = B^T A^T: m and n change places.
  const Device weights = systolic(128, Dataflow::weight_stationary);
  EXPECT_EQ(cycles_of(weights, 1024, 256, 1024), 22495);
  EXPECT_EQ(cycles_of(weights, 256, 1024, 1024), 40831);
  const Device outputs = systolic(128, Dataflow::output_stationary);
  EXPECT_EQ(cycles_of(outputs, 1024, 256, 1024), cycles_of(outputs, 256, 1024, 1024)) << "a square array of outputs";
  Device granule = round_device();
  granule.matrix.m_granule = 64;
  EXPECT_LT(cycles_of(granule, 64, 16, 256), cycles_of(granule, 16, 64, 256));
}

TEST(MatrixCost, RowsBelowTheGranuleCostTheSame) {
  for (Device device : {round_device(), systolic(32, Dataflow::weight_stationary)}) {
    device.matrix.m_granule = 32;
    const double one = cycles_of(device, 1, 64, 64);
    for (std::uint32_t m = 2; m <= 32; ++m) EXPECT_EQ(cycles_of(device, m, 64, 64), one) << m;
    const double two = cycles_of(device, 33, 64, 64);
    EXPECT_GT(two, one);
    EXPECT_EQ(cycles_of(device, 64, 64, 64), two);
  }
}

TEST(MatrixCost, FixedTilesCountSteps) {
  Device device = round_device();
  device.matrix.rates[0].cycles = 1.5;
  device.matrix.head = 10;
  EXPECT_EQ(cycles_of(device, 16, 16, 16), 10 + 1.5);
  EXPECT_EQ(cycles_of(device, 128, 64, 256), 10 + 8 * 4 * 16 * 1.5);
  EXPECT_EQ(cycles_of(device, 17, 1, 33), 10 + 2 * 1 * 3 * 1.5) << "parts of a tile cost a tile";
  EXPECT_EQ(cycles_of(device, 0, 16, 16), 10);
}

TEST(MatrixCost, NoShapeBeatsThePeak) {
  for (Dataflow dataflow : {Dataflow::weight_stationary, Dataflow::output_stationary}) {
    const Device device = systolic(32, dataflow);
    const double peak = peak_products(device.matrix, device.matrix.rates[0]);
    EXPECT_EQ(peak, 32 * 32);
    for (std::uint32_t m : {1, 32, 500, 4096})
      for (std::uint32_t k : {1, 32, 500, 4096}) EXPECT_GE(cycles_of(device, m, 64, k) * peak, double{64} * m * k);
  }
}

TEST(MatrixCost, AProductWithoutARateIsAnError) {
  Device device = round_device();
  device.matrix.rates.clear();
  EventWriter log;
  log.mma(16, 16, 16);
  const auto timeline = time_events(log.log(), device);
  ASSERT_FALSE(timeline);
  EXPECT_NE(timeline.error().message().find("no rate for f16 -> f32"), std::string_view::npos);
}

}  // namespace
}  // namespace inlay::npu
