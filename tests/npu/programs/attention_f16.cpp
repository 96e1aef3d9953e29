// `activations f16` rounds q and the weights once where `exact` takes two halves: how far off that may be. Decode:
//
//   score   2^-11 max |q| scale |k|, the roundings of q having signs of their own      weight   that, and 2^-11 of it
//   out     4 of that / sqrt(keys), for weights that are nearly equal and values up to 1
//
// A prompt's scores are f16 too, as are their difference from the maximum, that times the scale, and products of a
// tile:
//
//   weight  2^-11 (5 max |s| + 1)      out   2 of that, and 2^-11 of the products, for values up to 1
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/npu.hpp>

#include "shapes/flash_attention.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/random_tensors.hpp"

namespace inlay::test {
namespace {

constexpr index keys = 300, heads = 4, dim = 64;

TEST(activations_f16, attention_is_off_by_two_roundings) {
  RandomTensors tensors;
  IncreFlashAttention<Host> op = IncreFlashAttentionShape{1, heads, 1, dim, keys, DType::f32}.make(tensors);
  double longest_key = 0;
  for (index j = 0; j < keys; ++j) {
    double squares = 0;
    for (index d = 0; d < dim; ++d) {
      const double x = static_cast<float>(op.k.as<f16>()[j * dim + d]);
      squares += x * x;
    }
    longest_key = std::max(longest_key, std::sqrt(squares));
  }
  const double of_a_key = 0x1p-11 * (longest_key / std::sqrt(static_cast<double>(dim)) + 1);
  const double bound = 4 * of_a_key / std::sqrt(static_cast<double>(keys));
  for (const std::string_view device : npu_devices()) {
    std::vector<float> exact(heads * dim), rounded(heads * dim);
    for (const bool f16_mode : {false, true}) {
      auto npu = Npu::make({.device = std::string(device),
                            .activations = f16_mode ? NpuActivations::f16 : NpuActivations::exact,
                            .cores = 1});
      ASSERT_TRUE(npu);
      op.out.data = (f16_mode ? rounded : exact).data();
      std::vector<std::byte, CacheLineAllocator<std::byte>> workspace(scratch_bytes(*npu, op));
      const Status status = run(*npu, op, workspace);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    double worst = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) worst = std::max<double>(worst, std::abs(rounded[i] - exact[i]));
    std::printf("%s: %.2e of %.2e\n", std::string(device).c_str(), worst, bound);
    EXPECT_LE(worst, bound) << device;
    EXPECT_GT(worst, 1e-6) << device << ": is it rounded at all?";
  }
}

// Of one head of the cache.
struct Prompt {
  index tokens, group = 4, dim = 64;
};
void expect_prompt_within_bound(const Prompt& prompt, NpuMode mode) {
  const auto [tokens, group, dim] = prompt;
  RandomTensors tensors;
  FlashAttention<Host> op =
      FlashAttentionShape{.queries = tokens, .heads = group, .kv_heads = 1, .dim = dim}.make(tensors);
  op.out.dtype = DType::f32;
  double top = 0;
  for (index i = 0; i < tokens * group; ++i)
    for (index j = 0; j <= i / group; ++j) {
      double sum = 0;
      for (index d = 0; d < dim; ++d)
        sum += static_cast<double>(static_cast<float>(op.q.as<f16>()[i * dim + d])) *
               static_cast<float>(op.k.as<f16>()[j * dim + d]);
      top = std::max(top, std::abs(sum) / std::sqrt(static_cast<double>(dim)));
    }
  const double bound = 0x1p-11 * (2 * (5 * top + 1) + 1);
  for (const std::string_view device : npu_devices()) {
    std::vector<float> results[2];
    for (const bool f16_mode : {false, true}) {
      auto npu = Npu::make({.device = std::string(device),
                            .mode = mode,
                            .activations = f16_mode ? NpuActivations::f16 : NpuActivations::exact,
                            .cores = 1});
      ASSERT_TRUE(npu);
      std::vector<float>& out = results[f16_mode ? 1 : 0];
      out.resize(static_cast<std::size_t>(tokens * group * dim));
      op.out.data = out.data();
      std::vector<std::byte, CacheLineAllocator<std::byte>> workspace(scratch_bytes(*npu, op));
      const Status status = run(*npu, op, workspace);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    double worst = 0;
    for (std::size_t i = 0; i < results[0].size(); ++i)
      worst = std::max<double>(worst, std::abs(results[1][i] - results[0][i]));
    std::printf("%s: %.2e of %.2e\n", std::string(device).c_str(), worst, bound);
    EXPECT_LE(worst, bound) << device;
    // Where wide heads do not fit beside the matrix unit, the vector units alone round nothing.
    if (dim == 64 || device == "ascend-a2-like") {
      EXPECT_GT(worst, 1e-6) << device << ": is it rounded at all?";
    }
  }
}

TEST(activations_f16, a_prompt_is_off_by_the_roundings_of_its_scores) {
  expect_prompt_within_bound({.tokens = 200}, NpuMode::checked);
}

// Several tiles, and so many units that the cache's blocks are made before.
TEST(activations_f16, a_long_prompt_is_off_by_the_roundings_of_its_scores) {
  expect_prompt_within_bound({.tokens = 900}, NpuMode::functional);
}

// Gemma's heads, of which a vector unit's memory holds fewer than 128 tokens as rows and as blocks.
TEST(activations_f16, a_prompt_of_wide_heads_is_off_by_the_roundings_of_its_scores) {
  expect_prompt_within_bound({.tokens = 256, .group = 8, .dim = 256}, NpuMode::functional);
}

}  // namespace
}  // namespace inlay::test
