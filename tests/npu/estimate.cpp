// CostCache without data, and rankings over what is not known of a device.
#include "tile_machine/estimate/estimate.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include <inlay/npu.hpp>

#include "measure/npu_cases.hpp"
#include "npu_kernels/backend/program.hpp"
#include "shapes/add.hpp"
#include "shapes/rms_norm.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/estimate/rank.hpp"
#include "tile_machine/time/roofline.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const RmsNorm<Host>&, const Choices&);

namespace {

// The operator's program on rows that nobody reads.
EstimateRequest rms_norm(index rows, index dim) {
  const auto made = [rows, dim](GlobalMemory& memory) {
    AbsentTensors tensors;
    return program(memory, RmsNormShape{.rows = rows, .dim = dim, .weight = DType::f16}.make(tensors), {}).body;
  };
  return {"rms_norm", {rows, dim}, {DType::f16}, {}, made};
}

std::string text_of(std::string_view name) {
  std::ifstream stream(inlay::test::source_path("tile_machine/devices/") + std::string(name) + ".json");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

Device device_of(std::string_view name) {
  auto device = parse_device(text_of(name));
  EXPECT_TRUE(device) << device.error().message();
  return device ? std::move(*device) : Device{};
}

Case small(Case c) {
  for (index& extent : c.size) extent = std::min<index>(extent, 192);
  return c;
}

// With data and all its arithmetic.
TEST(Estimate, IsWhatTheRunTakes) {
  for (const Case& full : cases()) {
    const Case c = small(full);
    const Device device = device_of(c.device);
    const auto estimated_run = estimate(device, estimated(c, device));
    ASSERT_TRUE(estimated_run) << describe(c) << ": " << estimated_run.error().message();
    const Outcome outcome = run(c, device, true).outcome;
    const auto time = time_events(outcome.log, device);
    ASSERT_TRUE(time);
    EXPECT_EQ(estimated_run->cycles, to_cycles(time->makespan)) << describe(c);
    EXPECT_DOUBLE_EQ(estimated_run->us, estimated_run->cycles / device.ghz / 1e3);
    EXPECT_EQ(estimated_run->bytes, time->dram_bytes) << describe(c);
    EXPECT_LE(estimated_run->problem_share, 1);
    EXPECT_GT(estimated_run->problem_share, 0);
    for (std::size_t i = 1; i < dram_shares.size(); ++i)
      EXPECT_GE(estimated_run->us_at_share[i], estimated_run->us_at_share[i - 1] * 0.999) << describe(c);
  }
}

TEST(Estimate, AQuarterOfTheMemoryCostsAMemoryBoundProgramFourTimes) {
  const auto result = estimate(device_of("systolic32"), rms_norm(1024, 4096));
  ASSERT_TRUE(result);
  EXPECT_NEAR(result->us_at_share[3] / result->us_at_share[0], 4, 0.1);
  EXPECT_EQ(result->bound, "global memory");
}

// What one processor of a phone cannot draw of its memory others may have at no cost.
TEST(Estimate, WhatOthersTakeCostsAnAgentNothingThatItCouldNotDraw) {
  const Device device = device_of("hexagon-htp-like");
  const auto result = estimate(device, rms_norm(1024, 4096));
  ASSERT_TRUE(result);
  const double all = device.memory_bytes_per_cycle / device.dram_bytes_per_cycle;
  EXPECT_EQ(result->us_at_share[1], result->us_at_share[0]);
  EXPECT_NEAR(result->us_at_share[2] / result->us_at_share[0], 2 / all, 0.02);
  EXPECT_NEAR(result->us_at_share[3] / result->us_at_share[0], 4 / all, 0.05);
  EXPECT_EQ(result->bound, "global memory");
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A cache of 4 GiB and a workspace of 1 GiB, whose bytes, and a shadow of four for each, are never there.
TEST(Estimate, OfALargeCacheTouchesNoData) {
  const auto body = [](GlobalMemory& machine) {
    const Tensor cache = machine.absent("cache", DType::f16, {index{1} << 24, 128}, Use::in);
    const Tensor place = machine.workspace("place", {index{1} << 22, 128}, DType::f16);
    return [=](Core& core) {
      const Tensor tile = core.alloc("tile", Space::vector, {64, 128}, DType::f16);
      for (index row = 0; row < cache.rows(); row += cache.rows() / 64) core.copy(tile, cache.row_slice(row, 64));
      core.barrier_all();
      core.copy(place.row_slice(core.block_idx() * 64, 64), tile);
    };
  };
  const long before = peak_kilobytes();
  const auto result = estimate(device_of("ascend-a2-like"), {"walk", {}, {}, {}, body});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->bytes, 64u * 64 * 128 * 2) << "24 cores read what the first one brought";
  EXPECT_LT(peak_kilobytes() - before, 200 * 1024);
}

TEST(Estimate, IsKeptForItsProgramShapesTypesAndDevice) {
  CostCache estimates;
  const Case c = small(cases()[0]);
  Device device = device_of(c.device);
  int built = 0;
  EstimateRequest program = estimated(c, device);
  const auto build = program.build;
  program.build = [&](GlobalMemory& machine) {
    ++built;
    return build(machine);
  };
  const auto first = estimates.of(device, program), again = estimates.of(device, program);
  ASSERT_TRUE(first && again);
  EXPECT_EQ(built, 1);
  EXPECT_EQ(first->cycles, again->cycles);
  ++device.version;
  ASSERT_TRUE(estimates.of(device, program));
  program.sizes[0] += 1;
  ASSERT_TRUE(estimates.of(device, program));
  program.types = {DType::bf16};
  ASSERT_TRUE(estimates.of(device, program));
  program.name += " 2";
  ASSERT_TRUE(estimates.of(device, program));
  EXPECT_EQ(built, 5);
  EXPECT_EQ(estimates.known(), 5u);
}

TEST(Estimate, TheOldestAreForgottenWhereThereAreMany) {
  CostCache estimates;
  const Device device = device_of("systolic32");
  int built = 0;
  const auto estimate_of = [&](index length) {
    const EstimateRequest program{"nothing", {length}, {}, {}, [&](GlobalMemory&) {
                                    ++built;
                                    return [](Core&) {};
                                  }};
    ASSERT_TRUE(estimates.of(device, program));
  };
  const auto most = static_cast<index>(CostCache::most);
  for (index length = 0; length < 3 * most; ++length) {
    estimate_of(length);
    estimate_of(0);  // asked for again and again
  }
  EXPECT_EQ(built, 3 * most);
  EXPECT_LE(estimates.known(), CostCache::most);
  EXPECT_GE(estimates.known(), CostCache::most / 2);
}

TEST(Estimate, OfAProgramThatTheMachineRefusesIsItsReport) {
  const auto result =
      estimate(device_of("systolic32"), {"too large", {}, {}, {}, [](GlobalMemory&) {
                                           return [](Core& core) {
                                             core.alloc("tile", Space::vector, {1 << 20, 8}, DType::f32);
                                           };
                                         }});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("systolic32: tile (1048576 x 8 f32) needs"), std::string_view::npos)
      << result.error().message();
}

EventLog log_for(std::string_view device, const EstimateRequest& program) {
  auto log = events_of(device_of(device), program);
  EXPECT_TRUE(log) << log.error().message();
  return log ? std::move(*log) : EventLog{};
}

// More work of one kind is slower whatever the figures are; a program against itself is never faster.
TEST(Rank, IsSureWhereOneProgramDoesMore) {
  const EventLog less = log_for("ascend-a2-like", rms_norm(192, 1024)),
                 more = log_for("ascend-a2-like", rms_norm(384, 1024));
  const std::string text = text_of("ascend-a2-like");
  const auto sure = rank(text, less, more, {.samples = 20});
  ASSERT_TRUE(sure) << sure.error().message();
  EXPECT_EQ(sure->a_faster, 20u);
  EXPECT_EQ(sure->share(), 1);
  EXPECT_GT(sure->low, 1);
  EXPECT_LE(sure->low, sure->middle);
  EXPECT_LE(sure->middle, sure->high);
  EXPECT_TRUE(sure->flips.empty());
  EXPECT_GT(sure->figures, 40u);
  const auto same = rank(text, less, less, {.samples = 5});
  ASSERT_TRUE(same);
  EXPECT_EQ(same->a_faster + same->b_faster, 0u);
  EXPECT_EQ(same->middle, 1);
}

// Work on the vector unit against a transfer, made equal but for a fifth: the figures decide, and it says which.
TEST(Rank, NamesTheFigureThatFlipsIt) {
  const std::string text = text_of("hexagon-htp-like");
  const Device device = device_of("hexagon-htp-like");
  const auto log = [&](bool vector) {
    return *events_of(device, {"", {}, {}, {}, [vector](GlobalMemory& machine) -> std::function<void(Core&)> {
                                 const Tensor from = machine.absent("from", DType::f32, {64, 256}, Use::in);
                                 return [=](Core& core) {
                                   const Tensor t = core.alloc("t", Space::vector, {64, 256}, DType::f32);
                                   if (!vector) return core.copy(t, from);
                                   for (int i = 0; i < 3; ++i) core.vunary(VectorOp::exp, t, t);
                                 };
                               }});
  };
  const EventLog exp = log(true), load = log(false);
  const auto result = rank(text, load, exp, {.samples = 60, .seed = 7});
  ASSERT_TRUE(result);
  EXPECT_LT(result->cycles_a, result->cycles_b);
  EXPECT_GT(result->a_faster, 0u);
  EXPECT_GT(result->b_faster, 0u);
  const auto flips = [&](std::string_view pointer) {
    return std::any_of(result->flips.begin(), result->flips.end(),
                       [&](const Flip& flip) { return flip.pointer.find(pointer) != std::string::npos; });
  };
  EXPECT_TRUE(flips("/vector/operations/exp/slope")) << describe(*result, "load", "exp");
  EXPECT_FALSE(flips("/matrix")) << "neither multiplies";
  EXPECT_NE(describe(*result, "load", "exp").find("/vector/operations/exp/slope alone flips it"), std::string::npos);
  const auto again = rank(text, load, exp, {.samples = 60, .seed = 7});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->a_faster, result->a_faster);
  EXPECT_EQ(again->middle, result->middle);
}

// Additions against fewer multiplications: both operations' figures stand on one source, and are wrong together.
TEST(Rank, DrawsOneFactorForEachSource) {
  const std::string text = text_of("hexagon-htp-like");
  const Device device = device_of("hexagon-htp-like");
  const auto log = [&](VectorOp op, int times) {
    return *events_of(device, {"", {}, {}, {}, [op, times](GlobalMemory&) -> std::function<void(Core&)> {
                                 return [=](Core& core) {
                                   const Tensor t = core.alloc("t", Space::vector, {64, 256}, DType::f32);
                                   for (int i = 0; i < times; ++i) core.vscalar(op, t, t, 2);
                                 };
                               }});
  };
  const EventLog less = log(VectorOp::mul, 18), more = log(VectorOp::add, 20);
  const auto result = rank(text, less, more, {.samples = 60, .seed = 3});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->a_faster, 60u) << "apart from one another, half and twice would turn the order often";
  EXPECT_NEAR(result->high, result->low, 0.05);
  EXPECT_LT(result->sources, result->figures / 4);
  // Each alone may be the one that is wrong; all of a source together change nothing here.
  EXPECT_FALSE(result->flips.empty());
  EXPECT_TRUE(result->joint_flips.empty()) << describe(*result, "less", "more");
}

// No single operation is long enough: together they are.
TEST(Rank, NamesTheSourceWhoseFiguresFlipItTogether) {
  const std::string text = text_of("hexagon-htp-like");
  const Device device = device_of("hexagon-htp-like");
  const auto log = [&](bool vector) {
    return *events_of(device,
                      {"", {}, {}, {}, [vector](GlobalMemory& machine) -> std::function<void(Core&)> {
                         const Tensor from = machine.absent("from", DType::f32, {256, 256}, Use::in);
                         return [=](Core& core) {
                           const Tensor t = core.alloc("t", Space::vector, {256, 256}, DType::f32);
                           if (!vector) return core.copy(t, from);
                           for (const VectorOp op : {VectorOp::add, VectorOp::sub, VectorOp::mul, VectorOp::max})
                             for (int i = 0; i < 6; ++i) core.vbinary(op, t, t, t);
                         };
                       }});
  };
  const auto result = rank(text, log(true), log(false), {.samples = 40});
  ASSERT_TRUE(result);
  EXPECT_LT(result->cycles_a, result->cycles_b);
  const auto source = std::find_if(result->joint_flips.begin(), result->joint_flips.end(),
                                   [](const JointFlip& flip) { return flip.source == "contexts"; });
  ASSERT_NE(source, result->joint_flips.end()) << describe(*result, "work", "load");
  EXPECT_TRUE(source->high);
  EXPECT_GT(source->figures, 10u);
  for (const Flip& flip : result->flips) EXPECT_EQ(flip.pointer.find("/vector/operations"), std::string::npos);
  EXPECT_NE(describe(*result, "work", "load").find(" figures of contexts together flip it, at the upper end"),
            std::string::npos)
      << describe(*result, "work", "load");
}

TEST(Rank, RefusesWhatIsNoDescription) {
  const auto result = rank("{}", EventLog{}, EventLog{});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("/format is missing"), std::string_view::npos) << result.error().message();
}

// HeteroLLM (arXiv:2501.14794, figure 5): [14336, 4096] x [4096, K] is faster than its transpose [K, 4096] x
// [4096, 14336] on the NPU, and the more so the smaller K is; both are the same operations.
TEST(Hexagon, TheOrderAndTheShapeOfAProductMatter) {
  const Device device = device_of("hexagon-htp-like");
  const auto cycles = [&](std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    Entry entry;
    entry.work = {.unit = Unit::matrix, .in = DType::f16, .out = DType::f32, .m = m, .n = n, .k = k};
    return to_cycles(cost_of(device, entry).units);
  };
  double last = 1e9;
  for (std::uint32_t k : {32u, 128u, 512u, 2048u}) {
    const double ratio = cycles(k, 14336, 4096) / cycles(14336, k, 4096);
    EXPECT_GT(ratio, 1) << k;
    EXPECT_LT(ratio, last) << k;
    last = ratio;
  }
  // The miss: the paper shows up to six times, a product that waits for its weights is 1.7 times as slow here.
  EXPECT_NEAR(cycles(32, 14336, 4096) / cycles(14336, 32, 4096), 1.7, 0.01);
  EXPECT_LT(cycles(14336, 32, 4096) / (double{14336} * 32 * 4096), cycles(4096, 64, 7168) / (double{4096} * 64 * 7168))
      << "tall is better than wide at the same operations";
}

// systolic32 has 1 GiB of global memory: three operands of a third of it fit, of one row more they do not, and one that
// is written where another lies takes no more.
TEST(Estimate, OfOperandsThatTheDeviceHasNoMemoryForIsDeclined) {
  const auto estimator = NpuEstimator::make({.device = "systolic32"});
  ASSERT_TRUE(estimator.has_value());
  AbsentTensors tensors;
  constexpr index dim = 1024, fit = (index{1} << 30) / (3 * dim * 2);
  EXPECT_TRUE(estimate(*estimator, AddShape{.rows = fit, .dim = dim, .type = DType::f16}.make(tensors)).has_value());
  AddShape larger{.rows = fit + 1, .dim = dim, .type = DType::f16};
  const auto declined = estimate(*estimator, larger.make(tensors));
  ASSERT_FALSE(declined.has_value());
  EXPECT_EQ(declined.error().code(), StatusCode::unsupported);
  const std::string bytes = std::to_string(3 * (fit + 1) * dim * 2);
  EXPECT_EQ(declined.error().message(),
            "systolic32: the operands take " + bytes + " bytes; DRAM has " + std::to_string(index{1} << 30));
  larger.in_place = true;
  EXPECT_TRUE(estimate(*estimator, larger.make(tensors)).has_value());
}

// What the scalar unit would write stays as it was, too.
TEST(Estimate, TouchesNoBufferOfTheCaller) {
  const Device device = device_of("ascend-a2-like");
  std::vector<float> y{7};
  const EstimateRequest program{.name = "scalar_write", .sizes = {}, .types = {}, .build = [&](GlobalMemory& memory) {
                                  const Tensor to = memory.global("y", std::span(y), {1, 1}, Use::out);
                                  return [to](Core& core) { core.scalar_write(to, 0, 0, 1); };
                                }};
  ASSERT_TRUE(estimate(device, program));
  EXPECT_EQ(y[0], 7);
}

}  // namespace
}  // namespace inlay::npu
