// Packed codes of one level: both forms of a code are the code times the power that they name, and the
// operator returns the same bits with either, also on a thread that flushes subnormals.
#include "cpu_kernels/linear_w4a16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace inlay {
namespace {

using Level = isa::INLAY_LEVEL;
using F = simd::Floats<Level>;
using simd::CodeForm;
constexpr index N = F::size;

std::vector<std::uint8_t> random_bytes(index count, std::uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  return bytes;
}

template <CodeForm Form, int Bits, int J> void expect_code(const std::uint8_t* bytes) {
  float got[N];
  simd::CodeWords<Level>::load(bytes).template code<Form, Bits, J>().store(got);
  for (index lane = 0; lane < N; ++lane) {
    std::uint32_t word;
    std::memcpy(&word, bytes + 4 * lane, sizeof(word));
    const double code = word >> (Bits * J) & ((1u << Bits) - 1);
    ASSERT_EQ(static_cast<double>(got[lane]), std::ldexp(code, simd::code_exponent<Form, Bits>(J))) << Bits << ' ' << J;
  }
}
template <CodeForm Form> void expect_codes() {
  const auto bytes = random_bytes(4 * N * 64, 1);
  for (index at = 0; at < 64; ++at) {
    const std::uint8_t* words = bytes.data() + at * 4 * N;
    simd::unroll<8>([&](auto j) { expect_code<Form, 4, j>(words); });
    simd::unroll<4>([&](auto j) { expect_code<Form, 8, j>(words); });
  }
}
TEST(int4, converted_codes) { expect_codes<CodeForm::converted>(); }
TEST(int4, subnormal_codes) { expect_codes<CodeForm::subnormal>(); }

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
    codes = random_bytes(w4_panels(n) * w4_steps(k, bits) * 64, 3);
    zeros = random_bytes(groups, 4);
  }
  template <CodeForm Form> std::vector<float> run() {
    std::vector<float> y(static_cast<std::size_t>(rows * n));
    LinearW4a16<Host> op{.x = View<2>(x.data(), {rows, k}),
                         .codes = View<3>(codes.data(), {w4_panels(n), w4_steps(k, bits), 64}),
                         .scales = View<3>(scales.data(), {w4_panels(n), w4_groups(k, group), w4_panel}),
                         .y = View<2>(y.data(), {rows, n})};
    op.zeros = View<3>(zeros.data(), op.scales.extents);
    op.group = group;
    op.bits = bits;
    std::vector<std::byte> memory(cpu::linear_w4a16_bytes<Level>(serial(), op) + workspace_alignment);
    auto* at = memory.data();
    at += workspace_alignment - reinterpret_cast<std::uintptr_t>(at) % workspace_alignment;
    const Workspace workspace(at, memory.size() - workspace_alignment);
    if (bits == 4)
      cpu::w4_exact<Level, Form, 4>(serial(), op, workspace);
    else
      cpu::w4_exact<Level, Form, 8>(serial(), op, workspace);
    return y;
  }
};

TEST(int4, both_forms_give_the_same_bits) {
  for (index rows : {1, 3})
    for (index bits : {4, 8})
      for (float magnitude : {1e-30f, 1.0f, 1e30f}) {
        Problem problem(rows, bits, magnitude);
        const auto expected = problem.run<CodeForm::converted>();
        EXPECT_EQ(problem.run<CodeForm::subnormal>(), expected) << rows << ' ' << bits << ' ' << magnitude;
        for (float value : expected) ASSERT_TRUE(std::isfinite(value));
        simd::set_flushes(true);
        const auto flushing = problem.run<CodeForm::subnormal>();
        simd::set_flushes(false);
        EXPECT_EQ(flushing, expected) << rows << ' ' << bits << ' ' << magnitude;
      }
}

TEST(int4, keeping_subnormals_ends) {
  if constexpr (simd::can_flush) {
    const volatile float least = 0x1p-149f;
    simd::set_flushes(true);
    const float flushed = least * 0x1p100f;
    float kept = 0;
    {
      const simd::KeepSubnormals mode;
      kept = least * 0x1p100f;
    }
    const float after = least * 0x1p100f;
    simd::set_flushes(false);
    EXPECT_EQ(flushed, 0);
    EXPECT_EQ(kept, 0x1p-49f);
    EXPECT_EQ(after, 0);
  }
}

}  // namespace
}  // namespace inlay
