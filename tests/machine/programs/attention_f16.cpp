// `activations f16` rounds q and the weights once where `exact` takes two halves: how far off that may be.
//
//   score   2^-11 max |q| scale |k|, the roundings of q having signs of their own      weight   that, and 2^-11 of it
//   out     4 of that / sqrt(keys), for weights that are nearly equal and values up to 1
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/npu.hpp>
#include <inlay/ops/incre_flash_attention.hpp>

namespace inlay::test {
namespace {

constexpr index keys = 300, heads = 4, dim = 64;

TEST(activations_f16, attention_is_off_by_two_roundings) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> q(heads * dim);
  std::vector<f16> k(keys * dim), v(keys * dim);
  for (float& x : q) x = number(engine);
  for (f16& x : k) x = f16(number(engine));
  for (f16& x : v) x = f16(number(engine));
  double longest_key = 0;
  for (index j = 0; j < keys; ++j) {
    double squares = 0;
    for (index d = 0; d < dim; ++d) {
      const double x = static_cast<float>(k[static_cast<std::size_t>(j * dim + d)]);
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
      const IncreFlashAttention<Host> op{.q = ConstView<4>(q.data(), {1, 1, heads, dim}),
                                         .k = ConstView<4>(k.data(), {1, keys, 1, dim}),
                                         .v = ConstView<4>(v.data(), {1, keys, 1, dim}),
                                         .out = View<4>((f16_mode ? rounded : exact).data(), {1, 1, heads, dim})};
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

}  // namespace
}  // namespace inlay::test
