// A linear cut between GPU and NPU, against every cut there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/split/linear_cutter.hpp>
#include <inlay/exec/split/solver.hpp>

#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

// Every cut there is: the NPU has `n` outputs of the first tokens, which any graphs in a row compute.
class EveryCut {
 public:
  EveryCut(const LinearShape& shape, const SplitDevices& devices) : shape_(shape), devices_(devices) {}

  double least_us() {
    least_ = devices_.gpu(shape_);
    if (devices_.npu_graphs.empty()) {
      for (index m = 32; m < shape_.tokens; m += 32) each_outputs({m}, m);
      each_outputs({(shape_.tokens + 31) / 32 * 32}, shape_.tokens);
      return least_;
    }
    for (const index graph : devices_.npu_graphs) each_outputs({graph}, std::min(graph, shape_.tokens));
    // The largest that fits, again and again, and the smallest for the rest.
    std::vector<index> passes;
    for (index left = shape_.tokens; left > 0;) {
      index pass = devices_.npu_graphs.front();
      for (const index graph : devices_.npu_graphs)
        if (graph <= left) pass = graph;
      passes.push_back(pass);
      left -= std::min(pass, left);
      if (passes.size() > 1) take(shape_.outputs, passes, shape_.tokens - left);
    }
    return least_;
  }

 private:
  void each_outputs(const std::vector<index>& passes, index real) {
    const bool smallest =
        devices_.npu_graphs.empty() || passes[0] <= shape_.tokens ||
        *std::lower_bound(devices_.npu_graphs.begin(), devices_.npu_graphs.end(), shape_.tokens) == passes[0];
    if (!smallest) return;  // more padding than is needed
    for (index n = 256; n < shape_.outputs; n += 256) take(n, passes, real);
    take(shape_.outputs, passes, real);
  }
  void take(index n, const std::vector<index>& passes, index real) {
    double npu = 0, gpu = 0, bytes = 0;
    for (const index pass : passes) {
      npu += devices_.npu({n, shape_.inputs, pass});
      bytes += devices_.weight_bytes * static_cast<double>(n * shape_.inputs);
    }
    if (n < shape_.outputs) {
      gpu += devices_.gpu({shape_.outputs - n, shape_.inputs, real});
      bytes += devices_.weight_bytes * static_cast<double>((shape_.outputs - n) * shape_.inputs);
    }
    if (real < shape_.tokens) {
      gpu += devices_.gpu({shape_.outputs, shape_.inputs, shape_.tokens - real});
      bytes += devices_.weight_bytes * static_cast<double>(shape_.outputs * shape_.inputs);
    }
    double us = std::max(npu, gpu);
    if (gpu > 0 && devices_.shared_bytes_a_us > 0) us = std::max(us, bytes / devices_.shared_bytes_a_us);
    us += devices_.sync_us + devices_.copy_us_a_byte * 4 * static_cast<double>(n * real);
    least_ = std::min(least_, us);
  }

  const LinearShape& shape_;
  const SplitDevices& devices_;
  double least_ = 0;
};

LinearTime rate(double flops_a_us, double bytes_a_us, double us, index tile) {
  return [=](const LinearShape& s) {
    const index tokens = (s.tokens + tile - 1) / tile * tile;
    return us + std::max(2.0 * static_cast<double>(s.outputs * s.inputs * tokens) / flops_a_us,
                         0.5 * static_cast<double>(s.outputs * s.inputs) / bytes_a_us);
  };
}

TEST(linear_split, no_cut_takes_less) {
  std::mt19937 random(11);
  const auto draw = [&](index low, index high) { return std::uniform_int_distribution<index>(low, high)(random); };
  int cuts[6] = {};
  for (int round = 0; round < 400; ++round) {
    const LinearShape shape{draw(1, 14) * 200, draw(1, 40) * 100, draw(0, 3) == 0 ? 1 : draw(1, 600)};
    SplitDevices devices{
        .gpu = rate(1e6, 40e3, static_cast<double>(draw(0, 50)), 1),
        .npu = rate(static_cast<double>(draw(5, 80)) * 1e5, 40e3, static_cast<double>(draw(0, 200)), 32)};
    devices.weight_bytes = 0.5;
    if (draw(0, 1) == 1) devices.npu_graphs = {64, 128, 256};
    if (draw(0, 1) == 1) devices.sync_us = static_cast<double>(draw(0, 400));
    if (draw(0, 3) == 0) devices.copy_us_a_byte = 1e-5;
    if (draw(0, 1) == 1) devices.shared_bytes_a_us = 60e3;
    const auto split = split_linear(shape, devices);
    ASSERT_TRUE(split.has_value()) << split.error().message();
    EXPECT_EQ(split->us, EveryCut(shape, devices).least_us())
        << shape.outputs << " x " << shape.inputs << " x " << shape.tokens << ", " << name(split->cut);
    EXPECT_EQ(timed(shape, devices, *split).us, split->us);
    ++cuts[static_cast<std::size_t>(split->cut)];
  }
  for (int i = 0; i < 6; ++i) EXPECT_GT(cuts[i], 0) << name(static_cast<Cut>(i));  // each of them is the best somewhere
}
// HeteroLLM's table 3 has these times and what its solver took.
TEST(linear_split, table_3_of_heterollm) {
  const auto of = [](double us) { return [us](const LinearShape&) { return us; }; };
  const auto scaled = [](double us, index outputs) {
    return [=](const LinearShape& s) { return us * static_cast<double>(s.outputs) / static_cast<double>(outputs); };
  };
  const auto whole = split_linear({4096, 4096, 128}, {.gpu = of(7306), .npu = of(912), .npu_graphs = {128}});
  EXPECT_EQ(whole->cut, Cut::npu_only);
  const auto down =
      split_linear({4096, 14336, 256}, {.gpu = scaled(35231, 4096), .npu = scaled(23445, 4096), .npu_graphs = {256}});
  EXPECT_EQ(down->cut, Cut::rows);
  EXPECT_NEAR(static_cast<double>(down->npu_outputs) / 4096, 0.6, 0.03);  // 2 : 3
  const auto declined =
      split_linear({4096, 14336, 1}, {.gpu = scaled(1467, 4096), .npu = scaled(6506, 4096), .sync_us = 400});
  EXPECT_EQ(declined->cut, Cut::gpu_only);
  EXPECT_TRUE(declined->npu_passes.empty());
}
TEST(linear_split, parts_slow_each_other) {
  SplitDevices devices{.gpu = rate(1e12, 40e3, 0, 1), .npu = rate(1e12, 40e3, 0, 1), .weight_bytes = 0.5};
  const LinearShape shape{4096, 4096, 1};
  const double alone = devices.gpu(shape);
  devices.gpu_slowed = devices.npu_slowed = 1.5;
  EXPECT_DOUBLE_EQ(split_linear(shape, devices)->us, 0.75 * alone);
  devices.gpu_slowed = 2, devices.npu_slowed = 2;
  EXPECT_EQ(split_linear(shape, devices)->cut, Cut::gpu_only);
  EXPECT_DOUBLE_EQ(split_linear(shape, devices)->us, alone);
}
TEST(linear_split, two_readers_share_the_memory) {
  SplitDevices devices{.gpu = rate(1e12, 40e3, 0, 1), .npu = rate(1e12, 40e3, 0, 1), .weight_bytes = 0.5};
  const LinearShape shape{4096, 4096, 1};
  const double alone = devices.gpu(shape);
  EXPECT_DOUBLE_EQ(split_linear(shape, devices)->us, alone / 2);
  devices.shared_bytes_a_us = 60e3;
  EXPECT_DOUBLE_EQ(split_linear(shape, devices)->us, 0.5 * 4096 * 4096 / 60e3);
  devices.shared_bytes_a_us = 40e3;
  EXPECT_EQ(split_linear(shape, devices)->cut, Cut::gpu_only);
  devices.shared_bytes_a_us = 10e3;  // who is alone shares with none
  EXPECT_DOUBLE_EQ(split_linear(shape, devices)->us, alone);
}
TEST(linear_split, bad_input_is_named) {
  const auto refused = [](const LinearShape& shape, const SplitDevices& devices) {
    const auto split = split_linear(shape, devices);
    return split ? std::string("nothing") : std::string(split.error().message());
  };
  const LinearTime time = rate(1, 1, 1, 1);
  EXPECT_EQ(refused({4, 0, 1}, {.gpu = time, .npu = time}), "split_linear: inputs is 0; it must be above 0");
  EXPECT_EQ(refused({4, 4, -1}, {.gpu = time, .npu = time}), "split_linear: tokens is -1; it must be above 0");
  EXPECT_EQ(refused({4, 4, 1}, {.gpu = time}), "split_linear: gpu or npu is empty; it must be a time");
  EXPECT_EQ(refused({4, 4, 1}, {.gpu = time, .npu = time, .npu_graphs = {4, 4}}),
            "split_linear: npu_graphs[1] is 4; it must be above 0 and the one before it");
}

// Every element once, and each device has what the words say.
TEST(linear_split, words_cut_every_shape) {
  for (const char* words : {"rows:0.3", "sequence:0.3", "multi-sequence:0.9", "hybrid:0.25", "none"})
    for (const index tokens : {1, 2, 3, 7, 32, 77})
      for (const index outputs : {15, 16, 17, 48, 101}) {
        const LinearShape shape{outputs, 64, tokens};
        const auto split = SplitWords::parse(words)->of(shape);
        const auto parts = parts_of(split, shape, 0, 1);
        std::vector<int> computed(static_cast<std::size_t>(outputs * tokens));
        index of_second = 0;
        for (const auto& [part, device] : parts) {
          EXPECT_GT(part.elements(), 0);
          EXPECT_EQ(part.channel % channel_panel, 0);
          if (device == 1) of_second += part.elements();
          for (index t = part.token; t < part.token + part.tokens; ++t)
            for (index n = part.channel; n < part.channel + part.channels; ++n)
              ++computed[static_cast<std::size_t>(t * outputs + n)];
        }
        EXPECT_EQ(std::count(computed.begin(), computed.end(), 1), outputs * tokens) << words;
        if (parts.size() == 1) {
          EXPECT_EQ(of_second, outputs * tokens) << "what is too small is the second device's";
        }
      }
  const auto second = [](const char* words, const LinearShape& shape) {
    const LinearSplit split = SplitWords::parse(words)->of(shape);
    return std::pair(split.npu_outputs, split.npu_passes);
  };
  using Passes = std::vector<index>;
  EXPECT_EQ(second("rows", {96, 64, 7}), std::pair(index{48}, Passes{7}));
  EXPECT_EQ(second("rows:0.99", {48, 64, 7}), std::pair(index{32}, Passes{7}));  // both have some
  EXPECT_EQ(second("sequence:0.25", {96, 64, 100}), std::pair(index{96}, Passes{25}));
  EXPECT_EQ(second("multi-sequence:0.9", {96, 64, 100}), (std::pair(index{96}, Passes{64, 16, 8, 2})));
  EXPECT_EQ(second("hybrid:0.25", {96, 64, 100}), std::pair(index{48}, Passes{50}));
  EXPECT_EQ(second("sequence", {96, 64, 1}), std::pair(index{96}, Passes{1}));
  EXPECT_EQ(second("rows", {16, 64, 9}), std::pair(index{16}, Passes{9}));
}
TEST(linear_split, what_pads_a_pass_is_nobodys) {
  const LinearSplit padded{.cut = Cut::multi_sequence, .npu_outputs = 48, .npu_passes = {64, 32}};
  const auto parts = parts_of(padded, {48, 64, 77}, 0, 1);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1].part, (LinearPart{.token = 64, .tokens = 13, .channel = 0, .channels = 48}));
}
TEST(linear_split, words_that_are_none_are_refused) {
  const auto refused = [](const char* words) {
    const auto split = SplitWords::parse(words);
    return split ? std::string("nothing") : std::string(split.error().message());
  };
  EXPECT_EQ(refused("columns"),
            "split is 'columns'; it must be none, rows, sequence, multi-sequence or hybrid, with :SHARE or without");
  EXPECT_NE(refused("gpu only"), "nothing");
  EXPECT_NE(refused("none:0.5"), "nothing");
  for (const std::string share : {"", "0", "1", "-0.5", "1e9", "nan", "0.5x", "half"})
    EXPECT_EQ(refused(("rows:" + share).c_str()),
              "split has the share '" + share + "'; it must be above 0 and below 1");
}

// One linear of 512 outputs, and devices that take for it what is said.
class LinearCutterTest : public ::testing::Test {
 protected:
  LinearCutterTest() {
    GraphRecorder<> record(graph_);
    record(Linear<Host>{.x = {memory_.data(), {64, 32}},
                        .weight_rows = {memory_.data(), {512, 32}},
                        .y = {memory_.data() + 512 * 32, {64, 512}}});
    EXPECT_TRUE(inlay::test::ok(record.take_status()));
  }
  static const GraphStep& step_of(const StepGraph& graph, index at) {
    return graph.steps()[static_cast<std::size_t>(at)];
  }
  const GraphStep& step() { return step_of(graph_, 0); }
  // Of both for all 64 tokens and outputs, in proportion for fewer tokens.
  DeviceList list(double cpu_us, double cl_us, double sync_us) {
    DeviceList list;
    for (const auto& [name, us] : {std::pair("cpu", cpu_us), std::pair("cl", cl_us)}) {
      Profile profile(name);
      profile.add(step(), us);
      profile.add(step().part({.tokens = 16, .channels = 512}), us / 4);
      list.devices.push_back({.name = name, .kind = DeviceKind::cpu, .profile = std::move(profile)});
    }
    list.sync_us = sync_us;
    return list;
  }
  LinearSplit of(const DeviceList& list) {
    auto cutter = LinearCutter::make("", list, "cl");
    EXPECT_TRUE(cutter.has_value()) << cutter.error().message();
    auto split = cutter->of(step());
    EXPECT_TRUE(split.has_value()) << split.error().message();
    return *split;
  }

  std::vector<float> memory_ = std::vector<float>(512 * 32 + 64 * 512);
  StepGraph graph_;
};

TEST_F(LinearCutterTest, a_solver_cuts_what_both_do_faster_and_declines_what_they_do_not) {
  const LinearSplit even = of(list(1000, 1000, 10));
  EXPECT_EQ(even.us, 510);
  EXPECT_EQ(parts_of(even, {512, 32, 64}, 0, 1).size(), 2u);
  const LinearSplit uneven = of(list(3000, 1000, 10));  // a quarter of the tokens for the slower one
  EXPECT_EQ(uneven.cut, Cut::sequence);
  EXPECT_EQ(uneven.npu_passes, std::vector<index>{48});
  EXPECT_EQ(of(list(1000, 1000, 600)).cut, Cut::gpu_only) << "waiting costs more than is saved";
  EXPECT_EQ(of(list(1e6, 1000, 10)).cut, Cut::npu_only) << "the CPU would take longer for the least part";
  DeviceList slow_memory = list(1000, 1000, 0);
  slow_memory.shared_bytes_a_us = 512 * 32 * 4 / 990.0;  // which alone takes nearly as long
  EXPECT_GT(of(slow_memory).us, 980);
}

TEST_F(LinearCutterTest, a_part_takes_its_share) {
  const DeviceList devices = list(1000, 3000, 0);
  const auto cpu = linear_time(devices.devices[0], step()), cl = linear_time(devices.devices[1], step());
  ASSERT_TRUE(cpu.has_value() && cl.has_value());
  EXPECT_DOUBLE_EQ((*cpu)({512, 32, 64}), 1000);
  EXPECT_DOUBLE_EQ((*cpu)({128, 32, 64}), 250);
  EXPECT_DOUBLE_EQ((*cpu)({512, 32, 16}), 250);
  EXPECT_DOUBLE_EQ((*cl)({256, 32, 16}), 375);
}

// The line is one step; a device that is faster gets it, unless it does not compute it.
TEST_F(LinearCutterTest, steps_are_placed_by_profiles) {
  const auto placed = [&](const DeviceList& devices, bool supported) {
    auto cutter = LinearCutter::make("", devices, "cl");
    const auto device = cutter->place(graph_, [=](const GraphStep&) { return supported; });
    EXPECT_TRUE(device.has_value()) << device.error().message();
    return (*device)[0];
  };
  EXPECT_EQ(placed(list(1000, 999, 500), true), 1u);
  EXPECT_EQ(placed(list(1000, 1001, 0), true), 0u);
  EXPECT_EQ(placed(list(1000, 1, 0), false), 0u);
  DeviceList lacks = list(1, 1000, 0);
  lacks.devices[0].profile = Profile("cpu");
  EXPECT_EQ(placed(lacks, true), 1u);
  lacks.devices[1].profile = Profile("cl");
  EXPECT_EQ(placed(lacks, true), 0u) << "what no profile has is the cpu's";
  lacks.devices[1].profile.reset();
  lacks.devices[1].rates = DeviceRates{1, 1, 1};
  const auto refused = LinearCutter::make("", lacks, "cl")->place(graph_, [](const GraphStep&) { return true; });
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message(),
            "the device cl has rates; it must have a profile to place every step (inlay profile)");
}

// Two linears that do not wait for each other: one on each device is as good as both cut, and no handing over.
TEST_F(LinearCutterTest, cuts_are_left_where_devices_have_work_already) {
  std::vector<float> other(64 * 512);
  StepGraph both = graph_;
  GraphRecorder<> record(both, 1);
  record(Linear<Host>{
      .x = {memory_.data(), {64, 32}}, .weight_rows = {memory_.data(), {512, 32}}, .y = {other.data(), {64, 512}}});
  ASSERT_TRUE(inlay::test::ok(record.take_status()));
  const auto gains = [&](const DeviceList& devices, const std::vector<std::size_t>& placed) {
    auto cutter = LinearCutter::make("", devices, "cl");
    std::vector<SplitStep> splits;
    for (const index step : {0, 1}) splits.push_back({step, *cutter->of(step_of(both, step))});
    const auto gained = cutter->gains(both, placed, splits, {}, Policy::fifo);
    EXPECT_TRUE(gained.has_value()) << gained.error().message();
    return *gained;
  };
  EXPECT_TRUE(gains(list(1000, 1000, 10), {0, 0}));
  EXPECT_FALSE(gains(list(1000, 1000, 10), {0, 1}));
  EXPECT_TRUE(gains(list(3000, 1000, 10), {0, 1})) << "the slower one would be waited for";
}

TEST_F(LinearCutterTest, a_line_that_is_cut_takes_what_its_parts_do) {
  DeviceList devices = list(3000, 1000, 10);
  const TimedLine whole = TimedLine::of(graph_, {0}, {3000}, {});
  EXPECT_EQ(timeline_of(whole, devices, Policy::fifo)->makespan_us(), 3000);
  const SplitStep split{0, of(devices)};  // 48 of 64 tokens are the other's
  auto parts = cut(whole, devices, {&split, 1}, 0, 1, {});
  ASSERT_TRUE(parts.has_value()) << parts.error().message();
  EXPECT_EQ(parts->device, (std::vector<std::size_t>{1, 0}));
  EXPECT_DOUBLE_EQ(timeline_of(*parts, devices, Policy::fifo)->makespan_us(), 750);
  devices.devices[0].slowed = devices.devices[1].slowed = 1.2;  // for as long as both work, which is until the end
  EXPECT_NEAR(timeline_of(*parts, devices, Policy::fifo)->makespan_us(), 900, 1e-6);
  const SplitStep slowed{0, of(devices)};
  parts = cut(whole, devices, {&slowed, 1}, 0, 1, {});
  EXPECT_NEAR(timeline_of(*parts, devices, Policy::fifo)->makespan_us(), 900, 1e-6);
}

TEST_F(LinearCutterTest, what_is_not_described_is_refused) {
  const auto refused = [](const char* words, std::optional<DeviceList> list) {
    const auto cutter = LinearCutter::make(words, std::move(list), "cl");
    return cutter ? std::string("nothing") : std::string(cutter.error().message());
  };
  EXPECT_EQ(refused("", {}), "nothing");
  EXPECT_EQ(refused("rows", list(1, 1, 0)),
            "split is 'rows' beside described devices, by which linears are cut; it must be left out");
  DeviceList other = list(1, 1, 0);
  other.devices[1].name = "npu";
  EXPECT_EQ(refused("", other), "devices have none named cl; they must have cpu and the one beside it");
  DeviceList lacks = list(1, 1, 0);
  lacks.devices[1].profile = Profile("cl");
  auto cutter = LinearCutter::make("", lacks, "cl");
  ASSERT_TRUE(cutter.has_value());
  EXPECT_EQ(cutter->of(step()).error().message(),
            "the profile of cl has no linear of width 512 and 128 input bytes a row");
}

}  // namespace
}  // namespace inlay::exec::test
