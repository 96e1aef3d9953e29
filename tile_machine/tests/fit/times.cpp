// Figures from times of whole programs, which a description that the fit does not see takes for them.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tile_machine/fit/fit.hpp"
#include "tile_machine/tests/fit/msprof_logs.hpp"

namespace inlay::npu {
namespace {

std::string stock_text() { return text_of(directory / "ascend-a2-like.json"); }

// Rows through the vector units of all cores, `operations` for each tile.
EventLog rows_through(const Device& device, index rows, index columns, int operations, VectorOp op) {
  const auto build = [=](GlobalMemory& memory) -> std::function<void(Core&)> {
    const Tensor from = memory.absent("from", DType::f16, {rows, columns}, Use::in);
    const Tensor to = memory.absent("to", DType::f16, {rows, columns});
    return [=](Core& core) {
      const index block = 4;
      Ring in = core.ring("in", Space::vector, {block, columns}, DType::f16, {2, Pipe::load_vector, Pipe::vector});
      Ring out = core.ring("out", Space::vector, {block, columns}, DType::f16, {2, Pipe::vector, Pipe::store});
      const AutoBarrier chain = core.auto_barrier(Pipe::vector);
      for (index row = core.vector_worker() * block; row < rows; row += core.vector_workers() * block) {
        core.copy(in.acquire(), from.row_slice(row, block));
        in.commit();
        const Tensor x = in.wait();
        for (int i = 1; i < operations; ++i) core.vbinary(op, x, x, x);
        core.vbinary(op, out.acquire(), x, x);
        in.release();
        out.commit();
        core.copy(to.row_slice(row, block), out.wait());
        out.release();
      }
    };
  };
  auto log = events_of(device, {.name = "rows", .sizes = {}, .types = {}, .build = build, .launch = {}});
  if (!log) throw std::runtime_error(std::string(log.error().message()));
  return *std::move(log);
}

std::vector<TimedProgram> timed_programs(const Device& device, int copies, double noise, std::uint32_t seed) {
  Noise factor(noise, seed);
  const Device stock = hidden_device({});
  std::vector<TimedProgram> programs;
  for (const auto& [rows, columns] : {std::pair<index, index>{96, 512}, {384, 2048}, {576, 4096}})
    for (const int operations : {1, 12})
      for (const VectorOp op : {VectorOp::add, VectorOp::div}) {
        const EventLog log = rows_through(stock, rows, columns, operations, op);
        const auto timeline = time_events(log, device, {.detail = false});
        const double us = device.host.launch_us + to_cycles(timeline->makespan) / (device.ghz * 1e3);
        std::vector<double> measured;
        for (int copy = 0; copy < copies; ++copy) measured.push_back(us * factor());
        programs.push_back({log, std::move(measured)});
      }
  return programs;
}

Device hidden() {
  return hidden_device({{"/host/launch_us", 9},
                        {"/dram/bytes_per_cycle", 760},
                        {"/vector/operations/add/slope", 1.6},
                        {"/vector/operations/div/slope", 5.5}});
}

void expect_close(const Fit& fit, const std::map<std::string, double>& expected) {
  for (const auto& each : expected) {
    const auto found = std::find_if(fit.figures.begin(), fit.figures.end(),
                                    [&](const FittedFigure& figure) { return figure.pointer == each.first; });
    ASSERT_NE(found, fit.figures.end()) << each.first;
    EXPECT_NEAR(found->value, each.second, 0.05 * each.second) << each.first;
  }
}

TEST(FitTimes, FindsTheLaunchTheBandwidthAndTheSlopesOfADevice) {
  const auto programs = timed_programs(hidden(), 1, 0, 1);
  const auto fit = fit_times(stock_text(), programs, "times.csv");
  ASSERT_TRUE(fit) << fit.error().message();
  expect_close(*fit, {{"/host/launch_us", 9}, {"/dram/bytes_per_cycle", 760}, {"/vector/operations/div/slope", 5.5}});
  for (const FittedFigure& each : fit->figures) {
    EXPECT_EQ(each.from.rfind("log:times.csv: 12 times of 12 programs", 0), 0u) << each.from;
    EXPECT_LT(each.low, 1);
    EXPECT_GT(each.high, 1);
  }
}

TEST(FitTimes, WithNoiseATimeMustComeOftenEnough) {
  const auto programs = timed_programs(hidden(), 6, 0.03, 5);
  const auto fit = fit_times(stock_text(), programs, "times.csv");
  ASSERT_TRUE(fit) << fit.error().message();
  for (const FittedFigure& each : fit->figures) {
    const double value = each.pointer == "/host/launch_us"                ? 9
                         : each.pointer == "/dram/bytes_per_cycle"        ? 760
                         : each.pointer == "/vector/operations/div/slope" ? 5.5
                         : each.pointer == "/vector/operations/add/slope" ? 1.6
                                                                          : NAN;
    EXPECT_NEAR(each.value, value, 0.05 * value) << each.pointer;
  }
  expect_close(*fit, {{"/host/launch_us", 9}, {"/vector/operations/div/slope", 5.5}});
}

// Loads of one core into one of its memories.
EventLog loads(const Device& device, Space space, index count) {
  const auto build = [=](GlobalMemory& memory) -> std::function<void(Core&)> {
    const Tensor from = memory.absent("from", DType::f16, {1 << 14, 512}, Use::in);
    return [=](Core& core) {
      const Tensor to = core.alloc("to", space, {64, 512}, DType::f16);
      for (index i = 0; i < count; ++i) core.copy(to, from.row_slice(64 * i, 64));
    };
  };
  auto log = events_of(device, {.name = "loads", .sizes = {}, .types = {}, .build = build, .launch = {1, 1}});
  if (!log) throw std::runtime_error(std::string(log.error().message()));
  return *std::move(log);
}

// The path can be slower than the core's share of global memory, and no faster: more of it changes nothing.
TEST(FitTimes, AFigureMayCountOneWayOnly) {
  Json json = description("ascend-a2-like");
  for (const char* path : {"/paths/0", "/paths/1"}) json.at(Pointer(std::string(path) + "/half_burst"))[0] = 0;
  const auto stock = parse_device(json.dump());
  ASSERT_TRUE(stock) << stock.error().message();
  Json slower = json;
  slower.at(Pointer("/paths/1/bytes_per_cycle"))[0] = 90;
  const auto device = parse_device(slower.dump());
  std::vector<TimedProgram> programs;
  for (const Space space : {Space::vector, Space::staging})
    for (const index count : {4, 16, 64, 128}) {
      EventLog log = loads(*stock, space, count);
      const auto timeline = time_events(log, *device, {.detail = false});
      const double us = device->host.launch_us + to_cycles(timeline->makespan) / (device->ghz * 1e3);
      programs.push_back({std::move(log), {us}});
    }
  const auto fit = fit_times(json.dump(), programs, "times.csv");
  ASSERT_TRUE(fit) << fit.error().message();
  expect_close(*fit, {{"/paths/1/bytes_per_cycle", 90}});
}

// One time of one program could come from many figures: each alone, or some together.
TEST(FitTimes, OneTimeDeterminesNothing) {
  auto programs = timed_programs(hidden(), 1, 0, 1);
  programs.resize(1);
  const auto fit = fit_times(stock_text(), programs, "times.csv");
  ASSERT_TRUE(fit) << fit.error().message();
  EXPECT_TRUE(fit->figures.empty()) << fit->figures[0].pointer;
  EXPECT_FALSE(fit->open.empty());
}

// Figures that move every time alike cannot be told apart, however often they are measured.
TEST(FitTimes, TwoFiguresThatActAsOneStayOpen) {
  const Device stock = hidden_device({}), device = hidden_device({{"/vector/operations/add/head", 30}});
  std::vector<TimedProgram> programs;
  for (int i = 0; i < 8; ++i) {
    EventLog log = rows_through(stock, 96, 256, 40 + 8 * i, VectorOp::add);  // tiles of eight repeats, all of them
    const auto timeline = time_events(log, device, {.detail = false});
    const double us = device.host.launch_us + to_cycles(timeline->makespan) / (device.ghz * 1e3);
    programs.push_back({std::move(log), {us}});
  }
  const auto fit = fit_times(stock_text(), programs, "times.csv");
  ASSERT_TRUE(fit) << fit.error().message();
  for (const FittedFigure& each : fit->figures)
    EXPECT_FALSE(each.pointer.starts_with("/vector/operations/add/")) << each.pointer;
  const auto open = [&](const std::string& pointer) {
    return std::any_of(fit->open.begin(), fit->open.end(),
                       [&](const OpenFigure& each) { return each.pointer == pointer; });
  };
  EXPECT_TRUE(open("/vector/operations/add/head"));
  EXPECT_TRUE(open("/vector/operations/add/slope"));
}

}  // namespace
}  // namespace inlay::npu
