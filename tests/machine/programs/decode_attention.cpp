// The worked decode attention against a plain f64 softmax.
#include "npu_kernels/attention/decode_attention.hpp"

#include <cmath>

#include "tests/machine/programs/decode_problem.hpp"

namespace inlay::npu {
namespace {

void expect_attention(const Device& device, DecodePlan plan, DecodeProblem problem, Policy policy,
                      std::uint32_t cores) {
  Machine machine(device, {.policy = policy, .cores = cores});
  const DecodeOperands op = problem.on(machine, plan);
  expect_clean(
      machine, [&](Core& core) { decode_attention(core, op); }, op.launch());
  const std::vector<double> exact = problem.exact();
  // Weights are rounded to f16 (2^-11 relative, their sum is not), as is the result; |v| <= 1.
  for (std::size_t i = 0; i < exact.size(); ++i)
    ASSERT_NEAR(problem.out[i], exact[i], 0x1p-11 + 0x1p-11 * std::abs(exact[i]) + 1e-5) << device.name << " at " << i;
}

// With one stream for all C1V1 and C1V2 are the same.
std::vector<DecodePlan> plans_of(const Device& device) {
  if (device.streams.empty()) return {DecodePlan::c1v2, DecodePlan::vector};
  return {std::begin(decode_plans), std::end(decode_plans)};
}

TEST(DecodeAttentionProgram, GroupsTailsAndSplits) {
  for (const Device& device : all_devices())
    for (DecodePlan plan : plans_of(device)) {
      expect_attention(device, plan, {1, 1, 1, 64, 1, 1}, Policy::issue_order, 1);
      expect_attention(device, plan, {2, 8, 2, 64, 333, 1}, Policy::issue_order, 2);
      expect_attention(device, plan, {1, 8, 1, 128, 1500, 1}, Policy::issue_order, 2);
      expect_attention(device, plan, {1, 10, 2, 128, 1111, 3}, Policy::issue_order, 2);
      expect_attention(device, plan, {1, 2, 1, 32, 9000, 1}, Policy::issue_order, 1);
    }
}

// Launched with more vector streams than rows, some have none, and take part in the flags only.
TEST(DecodeAttentionProgram, AVectorStreamWithoutRows) {
  for (const Device& device : {twin_device(1), all_devices()[3]})
    for (index splits : {1, 2}) {
      DecodeProblem problem(1, 2, 2, 64, 400, splits);
      Machine machine(device, {.cores = 2});
      const DecodeOperands op = problem.on(machine, DecodePlan::c1v2);
      expect_clean(machine, [&](Core& core) { decode_attention(core, op); });
      const std::vector<double> exact = problem.exact();
      for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(problem.out[i], exact[i], 2e-3) << device.name;
    }
}

TEST(DecodeAttentionProgram, InEveryOrderOfExecution) {
  for (const Device& device : all_devices())
    for (DecodePlan plan : plans_of(device))
      for (Policy policy : policies) expect_attention(device, plan, {2, 6, 2, 64, 700, 2}, policy, 2);
}

}  // namespace
}  // namespace inlay::npu
