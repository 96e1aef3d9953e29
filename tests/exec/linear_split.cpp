// A linear cut between GPU and NPU, against every cut there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <inlay/exec/split/solver.hpp>

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

}  // namespace
}  // namespace inlay::exec::test
