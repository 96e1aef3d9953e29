#include <inlay/core/dtype.hpp>

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <random>

#include <inlay/core/element.hpp>

namespace inlay {
namespace {

// Eigen's half and bfloat16 are the independent witnesses.
TEST(dtype, every_f16_widens_as_eigen_does) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float ours = f16::from_bits(static_cast<std::uint16_t>(bits));
    const float theirs = Eigen::half_impl::half_to_float(Eigen::half_impl::raw_uint16_to_half(static_cast<std::uint16_t>(bits)));
    if (std::isnan(theirs)) ASSERT_TRUE(std::isnan(ours)) << bits;
    else ASSERT_EQ(std::bit_cast<std::uint32_t>(ours), std::bit_cast<std::uint32_t>(theirs)) << bits;
  }
}

TEST(dtype, every_f16_and_bf16_survives_the_round_trip) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = f16::from_bits(static_cast<std::uint16_t>(bits));
    const auto brain = bf16::from_bits(static_cast<std::uint16_t>(bits));
    if (std::isnan(static_cast<float>(half))) EXPECT_TRUE(std::isnan(static_cast<float>(f16(static_cast<float>(half)))));
    else ASSERT_EQ(f16(static_cast<float>(half)).bits, bits);
    if (std::isnan(static_cast<float>(brain))) EXPECT_TRUE(std::isnan(static_cast<float>(bf16(static_cast<float>(brain)))));
    else ASSERT_EQ(bf16(static_cast<float>(brain)).bits, bits);
  }
}

// The nearest of all representable values, ties to the even one: found by search, not by formula.
TEST(dtype, narrowing_rounds_to_nearest_even) {
  std::mt19937_64 rng(1);
  std::vector<float> inputs;
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {  // each f16, the midpoint to the next one, and its neighbours
    const float low = f16::from_bits(static_cast<std::uint16_t>(bits));
    const float high = bits + 1 == 0x7c00 ? 65536.0f : static_cast<float>(f16::from_bits(static_cast<std::uint16_t>(bits + 1)));
    const float middle = low + (high - low) / 2;
    const float expected_even = bits % 2 ? high : low;
    const auto widen = [](f16 h) { return std::isinf(static_cast<float>(h)) ? 65536.0f : static_cast<float>(h); };
    ASSERT_EQ(widen(f16(middle)), expected_even) << bits;
    ASSERT_EQ(widen(f16(std::nextafter(middle, 0.0f))), low) << bits;
    ASSERT_EQ(widen(f16(std::nextafter(middle, 1e9f))), high) << bits;
    ASSERT_EQ(f16(-middle).bits, f16(middle).bits | 0x8000);
  }
  for (int i = 0; i < 1000000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(bf16(value).bits, Eigen::bfloat16(value).value) << value;
    ASSERT_EQ(f16(value).bits, Eigen::half(value).x) << value;
  }
}

TEST(dtype, specials) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(f16(infinity).bits, 0x7c00);
  EXPECT_EQ(f16(-infinity).bits, 0xfc00);
  EXPECT_EQ(f16(65519.99f).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(f16(-0.0f).bits, 0x8000);
  EXPECT_EQ(f16(0x1p-24f).bits, 1);
  EXPECT_EQ(f16(0x1p-25f).bits, 0);  // the tie goes to zero
  EXPECT_EQ(f16(std::nextafter(0x1p-25f, 1.0f)).bits, 1);
  EXPECT_EQ(bf16(infinity).bits, 0x7f80);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(f16(nan))));
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(0x7f800001u)))));  // no payload left in bf16
}

// double -> f32 -> f16 rounds twice; round_to does not.
TEST(dtype, doubles_are_rounded_once) {
  const double above_tie = 1 + 0x1p-11 + 0x1p-40;  // f32 loses the last bit and lands on the tie
  EXPECT_EQ(static_cast<float>(f16(static_cast<float>(above_tie))), 1.0f);
  EXPECT_EQ(round_to(DType::f16, above_tie), 1 + 0x1p-10);
  EXPECT_EQ(round_to(DType::bf16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(round_to(DType::f16, -above_tie), -1 - 0x1p-10);
  std::mt19937_64 rng(2);
  std::uniform_real_distribution<double> values(-2, 2);
  for (int i = 0; i < 100000; ++i) {
    const double value = values(rng), rounded = round_to(DType::f16, value);
    const double step = 0x1p-24 * std::max(1.0, std::exp2(std::floor(std::log2(std::abs(value))) + 14));
    ASSERT_LE(std::abs(rounded - value), step / 2 * (1 + 1e-12)) << value;
  }
}

TEST(dtype, integers_round_to_even_and_saturate) {
  EXPECT_EQ(round_to(DType::i8, 2.5), 2);
  EXPECT_EQ(round_to(DType::i8, 3.5), 4);
  EXPECT_EQ(round_to(DType::i8, 1e9), 127);
  EXPECT_EQ(round_to(DType::i8, -1e9), -128);
  EXPECT_EQ(round_to(DType::u8, -1), 0);
  EXPECT_EQ(round_to(DType::i4, 9), 7);
  EXPECT_EQ(round_to(DType::u4, 99), 15);
  EXPECT_EQ(round_to(DType::i8, std::nan("")), 0);
}

TEST(dtype, four_bit_elements_take_a_nibble_each) {
  std::uint8_t bytes[2] = {0, 0};
  for (int i = 0; i < 4; ++i) store_element(bytes, DType::i4, i, -i);
  EXPECT_EQ(bytes[0], 0xf0);  // element 0 is the low nibble
  EXPECT_EQ(bytes[1], 0xde);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(load_element(bytes, DType::i4, i), -i);
  EXPECT_EQ(load_element(bytes, DType::u4, 3), 13);
  EXPECT_EQ(byte_size(DType::u4, 3), 2);
}

}  // namespace
}  // namespace inlay
