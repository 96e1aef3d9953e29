// The worked RMSNorm against f64: one rounding of the result and what f32 arithmetic costs.
#include "npu_kernels/rms_norm.hpp"

#include <cmath>

#include "tests/machine/support/programs.hpp"

namespace inlay::npu {
namespace {

template <class T> constexpr double half_ulp = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-11;

template <class T> void expect_rms_norm(const Device& device, index rows, index columns, Policy policy) {
  const auto x = random_values<T>(static_cast<std::size_t>(rows * columns), -2, 2, 1);
  const auto weight = random_values<T>(static_cast<std::size_t>(columns), 0, 2, 2);
  std::vector<T> y(x.size());
  Machine machine(device, {.policy = policy, .cores = 2});
  const RmsNormOperands op{machine.global("x", std::span(x), {rows, columns}),
                           machine.global("weight", std::span(weight), {1, columns}),
                           machine.global("y", std::span(y), {rows, columns}, Use::out), 1e-5f};
  expect_clean(machine, [&](Core& core) { rms_norm(core, op); });
  for (index r = 0; r < rows; ++r) {
    double squares = 0;
    for (index c = 0; c < columns; ++c)
      squares += std::pow(static_cast<double>(x[static_cast<std::size_t>(r * columns + c)]), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + op.eps);
    for (index c = 0; c < columns; ++c) {
      const auto at = static_cast<std::size_t>(r * columns + c);
      const double exact = x[at] * scale * weight[static_cast<std::size_t>(c)];
      // The sum of squares: each lane adds columns / lanes of them one after the other, at worst all.
      const double arithmetic = static_cast<double>(columns + 8) * 0x1p-24;
      ASSERT_NEAR(y[at], exact, std::abs(exact) * (half_ulp<T> + arithmetic) + 0x1p-25) << device.name << " row " << r;
    }
  }
}

TEST(RmsNormProgram, F16AndF32) {
  for (const Device& device : all_devices())
    for (index columns : {1, 100, 1000, 4096}) {
      expect_rms_norm<f16>(device, 13, columns, Policy::issue_order);
      expect_rms_norm<float>(device, 7, columns, Policy::issue_order);
    }
}

TEST(RmsNormProgram, InEveryOrderOfExecution) {
  for (const Device& device : all_devices())
    for (Policy policy : policies) expect_rms_norm<f16>(device, 40, 2048, policy);
}

}  // namespace
}  // namespace inlay::npu
