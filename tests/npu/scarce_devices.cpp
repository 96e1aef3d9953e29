// Devices that have less than any of the library's: memories of a half, a quarter, .. down to a few bytes, few flags, a
// matrix unit of small steps. Each operator computes there or is declined, on small structs and at a model's sizes.
#include <gtest/gtest.h>

#include "shapes/add.hpp"
#include "shapes/dequantize.hpp"
#include "shapes/embedding.hpp"
#include "shapes/flash_attention.hpp"
#include "shapes/gelu.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/kv_cache.hpp"
#include "shapes/layer_norm.hpp"
#include "shapes/linear.hpp"
#include "shapes/linear_int8.hpp"
#include "shapes/linear_w4a16.hpp"
#include "shapes/merge_states.hpp"
#include "shapes/moe_combine.hpp"
#include "shapes/moe_routing.hpp"
#include "shapes/paged_attention.hpp"
#include "shapes/quantize.hpp"
#include "shapes/rms_norm.hpp"
#include "shapes/rope.hpp"
#include "shapes/sampling.hpp"
#include "shapes/softmax.hpp"
#include "shapes/swiglu.hpp"
#include "tests/npu/computes_or_declines.hpp"

namespace inlay {
namespace {

using test::ChangedDevice, test::Json, test::with_figure, test::with_memory;

// Each scratch memory by itself.
std::vector<ChangedDevice> with_less_memory(std::int64_t most_divisor, std::vector<std::int64_t> sizes = {}) {
  std::vector<ChangedDevice> all;
  test::each_description([&](const std::string&, const Json& device) {
    for (std::size_t i = 1; i < device["memories"].size(); ++i) {
      const std::int64_t whole = device["memories"][i]["bytes"][0];
      for (std::int64_t divisor = 2; divisor <= most_divisor; divisor *= 2)
        all.push_back(with_memory(device, i, whole / divisor));
      for (const std::int64_t bytes : sizes) all.push_back(with_memory(device, i, bytes));
    }
  });
  return all;
}

std::vector<ChangedDevice> with_few_flags() {
  std::vector<ChangedDevice> all;
  test::each_description([&](const std::string&, const Json& device) {
    for (const double few : {1, 2, 3, 4}) {
      all.push_back(with_figure(device, "/sync/flags", few));
      if (!device["streams"].is_null()) all.push_back(with_figure(device, "/streams/flags", few));
    }
    all.push_back(with_figure(device, "/sync/depth", 1));
    if (!device["streams"].is_null()) all.push_back(with_figure(device, "/streams/depth", 1));
  });
  return all;
}

// Of each product one extent of a step.
std::vector<ChangedDevice> with_other_steps() {
  std::vector<ChangedDevice> all;
  test::each_description([&](const std::string&, const Json& device) {
    for (std::size_t rate = 0; rate < device["matrix"]["rates"].size(); ++rate)
      for (const char* extent : {"m", "n", "k"})
        for (const double size : {1, 2, 4, 12, 64})
          all.push_back(with_figure(device, "/matrix/rates/" + std::to_string(rate) + "/" + extent, size));
    for (const double rows : {1, 4, 64}) all.push_back(with_figure(device, "/matrix/m_granule", rows));
  });
  return all;
}

// Global memory, the cache before it and every path as slow as the loader lets them be.
std::vector<ChangedDevice> with_the_slowest_memory() {
  constexpr double least = 0x1p-8;
  std::vector<ChangedDevice> all;
  test::each_description([&](const std::string& name, const Json& device) {
    Json slow = device;
    const double cores = device["cores"][0];
    for (const char* shared : {"dram", "l2"}) {
      if (slow[shared].is_null()) continue;
      slow[shared]["bytes_per_cycle"][0] = cores * least;
      slow[shared]["bytes_per_cycle_core"][0] = least;
    }
    for (Json& path : slow["paths"]) path["bytes_per_cycle"][0] = least;
    all.push_back({name + " with the slowest memory", test::with_its_sources(slow)});
  });
  return all;
}

}  // namespace

namespace fuzz {
namespace {

template <class Op> class ScarceDevices : public ComputesOrDeclines<Op> {
 protected:
  void expect_computed_by_some(const std::vector<ChangedDevice>& devices) {
    const auto counts = this->run_on_all(devices);
    const bool on_the_host = std::is_same_v<Op, RopeTable<Host>>;
    if (devices.size() > npu_devices().size()) {  // else all structs that were drawn may be the host's
      EXPECT_EQ(counts.computed == 0, on_the_host);
    }
    std::cout << counts.computed << " computed, " << counts.declined << " declined\n";
  }
};
TYPED_TEST_SUITE(ScarceDevices, EveryOperator, OperatorNames);

TYPED_TEST(ScarceDevices, with_small_memories) {
  this->expect_computed_by_some(with_less_memory(4, {64, 512, 1536, 8192, 32768}));
}
TYPED_TEST(ScarceDevices, with_few_flags) { this->expect_computed_by_some(with_few_flags()); }
TYPED_TEST(ScarceDevices, with_the_slowest_memory) { this->expect_computed_by_some(with_the_slowest_memory()); }
TYPED_TEST(ScarceDevices, with_a_matrix_unit_of_other_steps) { this->expect_computed_by_some(with_other_steps()); }

}  // namespace
}  // namespace fuzz

namespace {

// What is supported there can be estimated, and what is not is declined in words. Returns what was declined.
template <class Shape> std::size_t declined(const Npu& npu, const Shape& shape) {
  AbsentTensors tensors;
  const auto op = shape.make(tensors);
  EXPECT_TRUE(check(op).ok());
  const Status status = supports(npu, op);
  if (status.ok() && npu.options().activations == NpuActivations::exact) {
    const auto cost = estimate(npu, op);
    EXPECT_TRUE(cost.has_value()) << op.name << ": " << cost.error().message();
  }
  if (status.ok()) return 0;
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  std::cout << "  " << op.name << ": " << status.message() << "\n";
  return 1;
}

template <class... Shapes> std::size_t declined_of(const Npu& npu, const Shapes&... shapes) {
  return (declined(npu, shapes) + ...);
}

// Rows of a model of 8192 channels, heads of 64 to 576 dims.
std::size_t declined_of_a_model(const Npu& npu) {
  const index dim = 8192, hidden = 28672, rows = 8;
  return declined_of(npu, AddShape{.rows = rows, .dim = dim}, DequantizeShape{.rows = rows, .dim = dim},
                     EmbeddingShape{.tokens = rows, .vocab = 32000, .dim = dim}, GeluShape{.rows = rows, .dim = hidden},
                     LayerNormShape{.rows = rows, .dim = dim}, RmsNormShape{.rows = rows, .dim = dim},
                     RmsNormShape{.rows = rows, .dim = dim, .has_residual = true},
                     SoftmaxShape{.rows = rows, .n = 16384}, SwigluShape{.rows = rows, .dim = hidden},
                     QuantizeShape{.rows = rows, .dim = dim}, RopeShape{.tokens = rows, .heads = 64, .dim = 128},
                     SamplingShape{}, MergeStatesShape{.tokens = rows, .heads = 64}, MoeRoutingShape{.tokens = rows},
                     MoeCombineShape{.tokens = rows}, ReshapeAndCacheShape{.tokens = 32},
                     ReshapeAndCacheShape{.tokens = 32, .cache = {.blocks = 64, .layout = CacheLayout::vllm}},
                     CopyBlocksShape{.pairs = 4}, SwapBlocksShape{.pairs = 4});
}

std::size_t declined_of_linears(const Npu& npu) {
  std::size_t count = 0;
  for (const index m : {1, 48}) {
    const index n = 256, k = 8192;
    count += declined_of(npu, LinearShape{.m = m, .n = n, .k = k},
                         LinearShape{.m = m, .n = n, .k = k, .type = DType::f32, .weight = DType::f32},
                         LinearInt8Shape{.m = m, .n = n, .k = k}, LinearW4a16Shape{.m = m, .n = n, .k = k},
                         LinearW4a16Shape{.m = m, .n = n, .k = k, .group = 32, .type = DType::f32},
                         LinearW4a16Shape{.m = m, .n = n, .k = k, .compute = W4Compute::int8_activations},
                         LinearW4a16Shape{.m = m, .n = n, .k = k, .group = 32, .bits = 5},
                         LinearW4a16Shape{.m = m, .n = n, .k = k, .group = 16, .scales = DType::f32, .bits = 6});
  }
  return count;
}

std::size_t declined_of_attention(const Npu& npu) {
  std::size_t count = 0;
  for (const index dim : {64, 128, 256, 576})
    count += declined_of(
        npu, FlashAttentionShape{.queries = 64, .keys = 256, .heads = 8, .kv_heads = 1, .dim = dim},
        FlashAttentionShape{.queries = 64, .keys = 256, .heads = 8, .kv_heads = 1, .dim = dim, .type = DType::f32},
        IncreFlashAttentionShape{.sequences = 2, .heads = 16, .kv_heads = 1, .dim = dim, .length = 512},
        IncreFlashAttentionShape{
            .sequences = 2, .heads = 16, .kv_heads = 1, .dim = dim, .length = 512, .cache = DType::i8},
        PagedAttentionShape{.sequences = 2, .heads = 16, .kv_heads = 1, .dim = dim, .length = 512});
  return count;
}

// A tile of codes on its way to global memory has the matrix unit's rows, which are twice a panel's here.
TEST(scarce_devices, codes_are_multiplied_in_64_kilobytes) {
  test::each_description([](const std::string& name, const Json& device) {
    if (name != "hexagon-htp-like") return;
    for (const std::int64_t kilobytes : {64, 128, 256, 512}) {
      const ChangedDevice small = with_memory(device, 1, kilobytes << 10);
      const auto npu = Npu::make({.device = small.text});
      ASSERT_TRUE(npu.has_value());
      for (const index m : {1, 256})
        for (const DType type : {DType::f16, DType::f32})
          for (const index bits : {4, 5, 6}) {
            AbsentTensors tensors;
            const LinearW4a16Shape shape{.m = m, .n = 1024, .k = 4096, .type = type, .bits = bits};
            const Status status = supports(*npu, shape.make(tensors));
            EXPECT_TRUE(status.ok()) << small.what << ", " << bits << " bits: " << status.message();
          }
    }
  });
}

class AtAModelsSizes : public ::testing::TestWithParam<NpuActivations> {};

TEST_P(AtAModelsSizes, memories_of_a_half_and_a_quarter) {
  for (const ChangedDevice& device : with_less_memory(4)) {
    SCOPED_TRACE(device.what);
    const auto npu = Npu::make({.device = device.text, .activations = GetParam(), .cores = 1});
    ASSERT_TRUE(npu.has_value()) << npu.error().message();
    std::cout << device.what << "\n";
    const std::size_t declined = declined_of_a_model(*npu) + declined_of_linears(*npu) + declined_of_attention(*npu);
    // A quarter of Hexagon's accumulators, which hold two tiles, is less than a product.
    if (device.what.find("2048 (HMX.acc)") == device.what.npos) {
      EXPECT_EQ(declined, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, AtAModelsSizes, ::testing::Values(NpuActivations::exact, NpuActivations::f16),
                         [](const auto& info) { return info.param == NpuActivations::exact ? "exact" : "f16"; });

}  // namespace
}  // namespace inlay
