// Packed codes of one level: both forms of a code are the code times the power that they name. That the operator
// returns the same bits with either: w4_forms.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <inlay/core/view.hpp>

#include <inlay/core/float_modes.hpp>
#include "cpu_kernels/simd/int4.hpp"
#include "cpu_kernels/simd/unroll.hpp"

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

TEST(int4, keeping_subnormals_ends) {
  if constexpr (fp::can_flush) {
    const volatile float least = 0x1p-149f;
    fp::set_flushes(true);
    const float flushed = least * 0x1p100f;
    float kept = 0;
    {
      const fp::KeepSubnormals mode;
      kept = least * 0x1p100f;
    }
    const float after = least * 0x1p100f;
    fp::set_flushes(false);
    EXPECT_EQ(flushed, 0);
    EXPECT_EQ(kept, 0x1p-49f);
    EXPECT_EQ(after, 0);
  }
}

}  // namespace
}  // namespace inlay
