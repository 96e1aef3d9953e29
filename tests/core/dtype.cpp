#include <inlay/core/dtype.hpp>

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
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

// Between every two neighbours of a type: the tie goes to the even one, the least bit of a double beside it decides
// otherwise. Behind the largest number comes the one that is infinity.
template <class T> void doubles_around_every_tie(DType type, unsigned infinity, double beyond) {
  const double inf = std::numeric_limits<double>::infinity();
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const auto number = [&](unsigned k) {
      return k == infinity ? beyond : static_cast<double>(static_cast<float>(T::from_bits(static_cast<std::uint16_t>(k))));
    };
    const double low = number(bits), high = number(bits + 1), middle = (low + high) / 2;
    const double above = bits + 1 == infinity ? inf : high, even = bits % 2 ? above : low;
    for (double sign : {1.0, -1.0}) {
      ASSERT_EQ(round_to(type, sign * middle), sign * even) << bits;
      ASSERT_EQ(round_to(type, sign * std::nextafter(middle, 0.0)), sign * low) << bits;
      ASSERT_EQ(round_to(type, sign * std::nextafter(middle, inf)), sign * above) << bits;
      ASSERT_EQ(round_to(type, sign * low), sign * low) << bits;
      T stored[3] = {T(7.0f), T(7.0f), T(7.0f)};
      store_element(stored, type, 1, sign * middle);
      ASSERT_EQ(load_element(stored, type, 1), sign * even) << bits;
      ASSERT_TRUE(stored[0].bits == T(7.0f).bits && stored[2].bits == T(7.0f).bits);
    }
  }
}

TEST(dtype, doubles_around_every_tie) {
  doubles_around_every_tie<f16>(DType::f16, 0x7c00, 65536);
  doubles_around_every_tie<bf16>(DType::bf16, 0x7f80, 0x1p128);
}

// Floats around the ties of bf16; f16's are above.
TEST(dtype, bf16_narrows_to_nearest_even) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits)
    for (std::uint32_t sign : {0u, 0x8000u}) {
      const auto narrowed = [&](std::uint32_t tail) { return bf16(std::bit_cast<float>((bits | sign) << 16 | tail)).bits; };
      ASSERT_EQ(narrowed(0), bits | sign);
      ASSERT_EQ(narrowed(0x7fff), bits | sign);
      ASSERT_EQ(narrowed(0x8000), (bits + bits % 2) | sign);
      ASSERT_EQ(narrowed(0x8001), (bits + 1) | sign);
      ASSERT_EQ(narrowed(0xffff), (bits + 1) | sign);
    }
}

// Quiet, sign and leading payload kept; bf16 is widened as it is.
TEST(dtype, nan_keeps_what_fits) {
  for (std::uint32_t sign : {0u, 0x80000000u})
    for (std::uint32_t payload : {1u, 0x1fffu, 0x2000u, 0x3f0000u, 0x400000u, 0x7fffffu, 0x5a5a5au}) {
      const float nan = std::bit_cast<float>(sign | 0x7f800000u | payload);
      EXPECT_EQ(f16(nan).bits, sign >> 16 | 0x7e00u | payload >> 13) << payload;
      EXPECT_EQ(bf16(nan).bits, sign >> 16 | 0x7fc0u | payload >> 16) << payload;
    }
  for (unsigned bits = 0x7c01; bits < 0x8000; ++bits) {
    const float wide = f16::from_bits(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide), 0x7fc00000u | (bits & 0x3ffu) << 13);
  }
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float wide = bf16::from_bits(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide), bits << 16);
  }
}

TEST(dtype, integers_round_to_even_and_saturate) {
  const double inf = std::numeric_limits<double>::infinity();
  struct Range {
    DType type;
    double low, high;
  };
  for (const Range& r : {Range{DType::i8, -128, 127}, Range{DType::u8, 0, 255}, Range{DType::i4, -8, 7},
                         Range{DType::u4, 0, 15}, Range{DType::i32, -2147483648., 2147483647.}}) {
    for (double value : {r.high + 1, r.high + 0.75, 1e30, inf}) EXPECT_EQ(round_to(r.type, value), r.high) << value;
    for (double value : {r.low - 1, r.low - 0.75, -1e30, -inf}) EXPECT_EQ(round_to(r.type, value), r.low) << value;
    EXPECT_EQ(round_to(r.type, std::nan("")), 0);
    for (double whole = std::max(r.low, -200.0); whole < std::min(r.high, 300.0); ++whole) {
      const double even = std::fmod(whole, 2) == 0 ? whole : whole + 1;
      ASSERT_EQ(round_to(r.type, whole), whole);
      ASSERT_EQ(round_to(r.type, whole + 0.5), even);
      ASSERT_EQ(round_to(r.type, std::nextafter(whole + 0.5, -1e9)), whole);
      ASSERT_EQ(round_to(r.type, std::nextafter(whole + 0.5, 1e9)), whole + 1);
    }
  }
  EXPECT_EQ(round_to(DType::i64, 1e30), 0x1p63 - 1024);
  EXPECT_EQ(round_to(DType::i64, -1e30), -0x1p63);
  EXPECT_EQ(round_to(DType::boolean, 0.25), 1);
  EXPECT_EQ(round_to(DType::f32, 1 + 0x1p-24), 1);
  EXPECT_EQ(round_to(DType::f32, 1 + 0x1p-24 + 0x1p-50), 1 + 0x1p-23);
}

// Every type has elements of its own size: those beside one are left as they were.
TEST(dtype, elements_lie_side_by_side) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i4, DType::u4, DType::i32,
                     DType::i64, DType::boolean}) {
    std::uint8_t bytes[64];
    for (index i = 0; i < 7; ++i) {
      for (std::uint8_t& byte : bytes) byte = 0xa5;
      const double value = type == DType::u4 || type == DType::u8 || type == DType::boolean ? 1 : -3;
      store_element(bytes, type, i, value);
      EXPECT_EQ(load_element(bytes, type, i), value) << name(type);
      const index first = i * bits(type), end = first + bits(type);
      for (index bit = 0; bit < 512; ++bit)
        if (bit < first || bit >= end) {
          ASSERT_EQ(bytes[bit / 8] >> bit % 8 & 1, 0xa5 >> bit % 8 & 1) << name(type) << ' ' << i << ", bit " << bit;
        }
    }
  }
  const std::int64_t large = -(std::int64_t{1} << 52) - 1;
  EXPECT_EQ(load_element(&large, DType::i64, 0), static_cast<double>(large));
}

TEST(dtype, four_bit_elements_take_a_nibble_each) {
  std::uint8_t bytes[2] = {0, 0};
  for (int i = 0; i < 4; ++i) store_element(bytes, DType::i4, i, -i);
  EXPECT_EQ(bytes[0], 0xf0);  // element 0 is the low nibble
  EXPECT_EQ(bytes[1], 0xde);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(load_element(bytes, DType::i4, i), -i);
  EXPECT_EQ(load_element(bytes, DType::u4, 3), 13);
  // Either of the two is written beside what the other one holds.
  for (int low = 0; low < 16; ++low)
    for (int high = 0; high < 16; ++high)
      for (int before : {0x00, 0xff})
        for (bool low_first : {false, true}) {
          std::uint8_t byte = static_cast<std::uint8_t>(before);
          const auto put = [&](int i) { store_element(&byte, DType::u4, i, i ? high : low); };
          put(low_first ? 0 : 1), put(low_first ? 1 : 0);
          ASSERT_EQ(byte, high << 4 | low);
        }
  EXPECT_EQ(byte_size(DType::u4, 3), 2);
}

}  // namespace
}  // namespace inlay
