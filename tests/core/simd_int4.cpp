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
using simd::Codes;
constexpr index N = F::size;

std::vector<std::uint8_t> random_bytes(index count, std::uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  return bytes;
}

const std::int8_t book[16] = {-127, -104, -83, 0, -49, 127, -22, -10, 1, 13, -128, 38, 53, 69, 89, 113};

// Of a step, by the drawing in ops/linear_w4a16.hpp.
template <Codes Kind> int code_at(const std::uint8_t* step, index channel, int slot) {
  if (Kind == Codes::eight) return step[4 * channel + slot];
  const int lower = step[4 * channel + slot / 2] >> (slot % 2 * 4) & 15;
  if (Kind == Codes::five) return lower + 16 * (step[64 + channel] >> slot & 1);
  const int pair_of_slot[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const int pairs = step[64 + 2 * channel] | step[65 + 2 * channel] << 8;
  return Kind == Codes::six ? lower + 16 * (pairs >> 2 * pair_of_slot[slot] & 3) : lower;
}

template <CodeForm Form, Codes Kind, int J> void expect_code(const std::uint8_t* step) {
  float got[N];
  const simd::CodeTable<Level, Kind> table{simd::NamedBytes(book)};
  for (index channel = 0; channel < 16; ++channel) {
    const index lane = channel % N, place = channel / N;
    const auto words = simd::load_words<Level, Kind>(step + 4 * N * place, place);
    simd::OpenCodes<Level, Kind>(words, table).template code<Form, J>().store(got);
    const int code = code_at<Kind>(step, channel, J);
    const double number = Kind == Codes::named ? book[code] + 128 : static_cast<double>(code);
    ASSERT_EQ(static_cast<double>(got[lane]), std::ldexp(number, simd::code_exponent<Form, Kind>(J))) << channel << J;
  }
}
template <CodeForm Form> void expect_codes() {
  constexpr index step = 96;  // the largest
  const auto bytes = random_bytes(step * 64, 1);
  for (index at = 0; at < 64; ++at) {
    const std::uint8_t* words = bytes.data() + at * step;
    simd::unroll<8>([&](auto j) { expect_code<Form, Codes::four, j>(words); });
    simd::unroll<8>([&](auto j) { expect_code<Form, Codes::five, j>(words); });
    simd::unroll<8>([&](auto j) { expect_code<Form, Codes::six, j>(words); });
    simd::unroll<8>([&](auto j) { expect_code<Form, Codes::named, j>(words); });
    simd::unroll<4>([&](auto j) { expect_code<Form, Codes::eight, j>(words); });
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
