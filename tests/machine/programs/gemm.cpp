// The worked GEMM: int8 exact, f16 bit for bit in the order of the device and near to f64.
#include "npu_kernels/linear/gemm.hpp"

#include <cmath>

#include "tests/machine/support/programs.hpp"

namespace inlay::npu {
namespace {

struct Size {
  index m, n, k;
};

// sum over k of a[i, k] * b[j, k] as device.hpp defines it: blocks of k_block, then the accumulator.
float device_order(const f16* a, const f16* b, index k, const Numerics& numerics) {
  const auto step = [&](float x, float y, float s) {
    return numerics.fused_multiply_add ? std::fma(x, y, s) : s + x * y;
  };
  float sum = 0;
  for (index first = 0; first < k; first += numerics.k_block) {
    float block = numerics.k_block == 1 ? sum : 0.0f;
    for (index i = first; i < std::min<index>(k, first + numerics.k_block); ++i) block = step(a[i], b[i], block);
    sum = numerics.k_block == 1 ? block : sum + block;
  }
  return sum;
}

void expect_f16(const Device& device, Size size, Policy policy, std::uint32_t cores) {
  const auto a = random_values<f16>(static_cast<std::size_t>(size.m * size.k), -1, 1, 1);
  const auto b = random_values<f16>(static_cast<std::size_t>(size.n * size.k), -1, 1, 2);
  std::vector<float> c(static_cast<std::size_t>(size.m * size.n));
  Machine machine(device, {.policy = policy, .cores = cores});
  const GemmOperands op{machine.global("a", std::span(a), {size.m, size.k}),
                        machine.global("b", std::span(b), {size.n, size.k}),
                        machine.global("c", std::span(c), {size.m, size.n}, Use::out)};
  expect_clean(machine, [&](Core& core) { gemm(core, op); });
  for (index i = 0; i < size.m; ++i)
    for (index j = 0; j < size.n; ++j) {
      const f16 *row = a.data() + i * size.k, *column = b.data() + j * size.k;
      const float got = c[static_cast<std::size_t>(i * size.n + j)];
      ASSERT_EQ(got, device_order(row, column, size.k, device.numerics)) << device.name << " at " << i << ", " << j;
      double exact = 0, magnitude = 0;
      for (index k = 0; k < size.k; ++k) {
        exact += static_cast<double>(row[k]) * column[k];
        magnitude += std::abs(static_cast<double>(row[k]) * column[k]);
      }
      // Standard bound: k roundings of a sum of magnitude `magnitude`.
      ASSERT_LE(std::abs(got - exact), static_cast<double>(size.k) * 0x1p-24 * magnitude) << device.name;
    }
}

TEST(GemmProgram, F16InTheOrderOfTheDevice) {
  for (const Device& device : all_devices())
    for (const Size size : {Size{1, 1, 1}, {96, 80, 112}, {33, 65, 257}, {200, 136, 700}})
      expect_f16(device, size, Policy::issue_order, 2);
}

TEST(GemmProgram, F16InEveryOrderOfExecution) {
  for (const Device& device : all_devices())
    for (Policy policy : policies) expect_f16(device, {130, 140, 96}, policy, 3);
}

TEST(GemmProgram, Int8IsExact) {
  for (const Device& device : all_devices())
    for (const Size size : {Size{1, 1, 1}, {96, 80, 112}, {130, 33, 1000}}) {
      const auto a = random_values<std::int8_t>(static_cast<std::size_t>(size.m * size.k), -128, 127, 3);
      const auto b = random_values<std::int8_t>(static_cast<std::size_t>(size.n * size.k), -128, 127, 4);
      std::vector<std::int32_t> c(static_cast<std::size_t>(size.m * size.n));
      Machine machine(device, {.policy = Policy::late_dma, .cores = 2});
      const GemmOperands op{machine.global("a", std::span(a), {size.m, size.k}),
                            machine.global("b", std::span(b), {size.n, size.k}),
                            machine.global("c", std::span(c), {size.m, size.n}, Use::out)};
      expect_clean(machine, [&](Core& core) { gemm(core, op); });
      for (index i = 0; i < size.m; ++i)
        for (index j = 0; j < size.n; ++j) {
          std::int32_t exact = 0;
          for (index k = 0; k < size.k; ++k)
            exact += a[static_cast<std::size_t>(i * size.k + k)] * b[static_cast<std::size_t>(j * size.k + k)];
          ASSERT_EQ(c[static_cast<std::size_t>(i * size.n + j)], exact) << device.name << " at " << i << ", " << j;
        }
    }
}

}  // namespace
}  // namespace inlay::npu
