// linear_w4a16 returns the same bits with either form of the codes, also on a thread that flushes subnormals: the
// kernels of each level as the library has them, since they take a quarter of a minute to compile.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <inlay/cpu.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include <inlay/core/float_modes.hpp>
#include "cpu_kernels/linear/w4a16_form.hpp"
#include "tests/support/levels.hpp"

namespace inlay {
namespace {

using simd::CodeForm;

std::vector<std::uint8_t> random_bytes(index count, std::uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  return bytes;
}

struct Problem {
  index rows, k = 200, n = 40, group = 32, bits;
  std::vector<float> x, scales;
  std::vector<std::uint8_t> codes, zeros;

  Problem(index tokens, index code_bits, float magnitude) : rows(tokens), bits(code_bits) {
    const index groups = w4_panels(n) * w4_groups(k, group) * w4_panel;
    std::mt19937 rng(2);
    std::uniform_real_distribution<float> near(-magnitude, magnitude), scale(0.01f, 0.1f);
    for (index i = 0; i < rows * k; ++i) x.push_back(near(rng));
    for (index i = 0; i < groups; ++i) scales.push_back(scale(rng));
    codes = random_bytes(w4_panels(n) * w4_steps(k, bits) * w4_step_bytes(bits), 3);
    zeros = random_bytes(groups, 4);
  }
  std::vector<float> run(Isa level, CodeForm form) {
    std::vector<float> y(static_cast<std::size_t>(rows * n));
    LinearW4a16<Host> op{.x = View<2>(x.data(), {rows, k}),
                         .codes = View<3>(codes.data(), {w4_panels(n), w4_steps(k, bits), w4_step_bytes(bits)}),
                         .scales = View<3>(scales.data(), {w4_panels(n), w4_groups(k, group), w4_panel}),
                         .y = View<2>(y.data(), {rows, n})};
    op.zeros = View<3>(zeros.data(), op.scales.extents);
    op.group = group;
    op.bits = bits;
    std::vector<std::byte> memory(scratch_bytes(Cpu(level, serial()), op) + workspace_alignment);
    auto* at = memory.data();
    at += workspace_alignment - reinterpret_cast<std::uintptr_t>(at) % workspace_alignment;
    const Workspace workspace(at, memory.size() - workspace_alignment);
    const Status status = cpu::dispatch<LinearW4a16<Host>>(
        level, [&]<class Level>(Level) { return cpu::compute_as<Level>(form, serial(), op, workspace); });
    EXPECT_TRUE(status.ok()) << status.message();
    return y;
  }
};

TEST(w4_forms, both_give_the_same_bits) {
  for (const Isa level : available_isas())
    for (index rows : {1, 3})
      for (index bits : {4, 5, 6, 8})
        for (float magnitude : {1e-30f, 1.0f, 1e30f}) {
          SCOPED_TRACE(std::string(name(level)) + ' ' + std::to_string(rows) + ' ' + std::to_string(bits) + ' ' +
                       std::to_string(magnitude));
          Problem problem(rows, bits, magnitude);
          const auto expected = problem.run(level, CodeForm::converted);
          EXPECT_EQ(problem.run(level, CodeForm::subnormal), expected);
          for (float value : expected) ASSERT_TRUE(std::isfinite(value));
          fp::set_flushes(true);
          const auto flushing = problem.run(level, CodeForm::subnormal);
          fp::set_flushes(false);
          EXPECT_EQ(flushing, expected);
        }
}

}  // namespace
}  // namespace inlay
