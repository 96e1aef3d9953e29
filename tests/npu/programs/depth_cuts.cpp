// Deep layers, whose sums are cut by the depth (linear/products.hpp): near to f64, the same bits for a row alone and in
// a batch that goes segment by segment, and in order under the checker.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <inlay/npu.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/weights/linear_int8_pack.hpp>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

constexpr index k = 8448, n = 40, many = 330;  // rows of f16 that hexagon-htp-like does not keep side by side

Npu npu_of(const char* device, NpuMode mode) {
  auto npu = Npu::make({.device = device, .mode = mode});
  EXPECT_TRUE(npu) << npu.error().message();
  return std::move(*npu);
}

template <class Op> void run_with_scratch(const Npu& npu, const Op& op) {
  const std::size_t bytes = scratch_bytes(npu, op);
  std::vector<std::byte> memory(bytes + workspace_alignment);
  void* first = memory.data();
  std::size_t room = memory.size();
  std::align(workspace_alignment, bytes, first, room);
  const Status status = inlay::run(npu, op, {static_cast<std::byte*>(first), bytes});
  ASSERT_TRUE(status.ok()) << status.message();
}

struct Layer {
  std::vector<f16> x = random_values<f16>(many * k, -1, 1, 1), w = random_values<f16>(n * k, -1, 1, 2);
  std::vector<float> run(const Npu& npu, index first, index rows) const {
    std::vector<float> y(static_cast<std::size_t>(rows * n));
    const Linear<Host> op{
        .x = {x.data() + first * k, {rows, k}}, .weight_rows = {w.data(), {n, k}}, .y = {y.data(), {rows, n}}};
    run_with_scratch(npu, op);
    return y;
  }
};

TEST(DepthCuts, ARowHasTheSameBitsAloneAndSegmentBySegment) {
  const Layer layer;
  for (const char* device : {"hexagon-htp-like", "systolic128"}) {
    const Npu npu = npu_of(device, NpuMode::functional);
    const std::vector<float> all = layer.run(npu, 0, many);
    for (const index row : {index{0}, index{65}, many - 1}) {
      const std::vector<float> alone = layer.run(npu, row, 1);
      for (index j = 0; j < n; ++j) {
        ASSERT_EQ(all[static_cast<std::size_t>(row * n + j)], alone[static_cast<std::size_t>(j)])
            << device << " " << row << " " << j;
        double exact = 0, size = 0;
        for (index i = 0; i < k; ++i) {
          const double term =
              double{layer.x[static_cast<std::size_t>(row * k + i)]} * layer.w[static_cast<std::size_t>(j * k + i)];
          exact += term, size += std::abs(term);
        }
        ASSERT_LE(std::abs(alone[static_cast<std::size_t>(j)] - exact), k * 0x1p-24 * size) << device << " " << row;
      }
    }
  }
}

TEST(DepthCuts, SegmentsComeInOrderUnderTheChecker) {
  const Layer layer;
  const std::vector<float> checked = layer.run(npu_of("hexagon-htp-like", NpuMode::checked), 0, many);
  EXPECT_EQ(checked, layer.run(npu_of("hexagon-htp-like", NpuMode::functional), 0, many));
}

// Integers: all of them, to the bit.
TEST(DepthCuts, SumsOfIntegersAreExact) {
  constexpr index rows = 340, depth = 16640, channels = 24;
  std::vector<std::int8_t> x(rows * depth), w(channels * depth);
  std::mt19937 random(3);
  for (auto* values : {&x, &w})
    for (std::int8_t& value : *values) value = static_cast<std::int8_t>(random() % 255) - 127;
  const std::array<index, 3> extents = linear_int8::packed_extents(channels, depth);
  std::vector<std::int8_t> packed(static_cast<std::size_t>(extents[0] * extents[1] * extents[2]));
  std::vector<std::int32_t> sums(channels), y(rows * channels);
  ASSERT_TRUE(
      pack_linear_int8({w.data(), {channels, depth}}, {packed.data(), extents}, {sums.data(), {channels}}).ok());
  const LinearInt8<Host> op{.x = {x.data(), {rows, depth}},
                            .weight = {packed.data(), extents},
                            .weight_sum = {sums.data(), {channels}},
                            .y = {y.data(), {rows, channels}}};
  const Npu npu = npu_of("hexagon-htp-like", NpuMode::functional);
  run_with_scratch(npu, op);
  for (index i = 0; i < rows; ++i)
    for (index j = 0; j < channels; ++j) {
      std::int32_t exact = 0;
      for (index d = 0; d < depth; ++d)
        exact += x[static_cast<std::size_t>(i * depth + d)] * w[static_cast<std::size_t>(j * depth + d)];
      ASSERT_EQ(y[static_cast<std::size_t>(i * channels + j)], exact) << i << ", " << j;
    }
}

}  // namespace
}  // namespace inlay::npu
