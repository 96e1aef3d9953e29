// quantize_w4a16: the grid of every group, and the nearest code on it.
#include <inlay/core/threads.hpp>
#include <inlay/weights/linear_w4a16_pack.hpp>

#include "tests/support/cases.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

// Scale and zero point as the header says, from the group's own elements, and each code as near as any other.
TEST(linear_w4a16, quantizes_to_nearest) {
  Rng rng(31);
  const index n = 17, k = 75;
  for (index bits : {4, 5, 6, 8})
    for (bool symmetric : {true, false})
      for (DType type : {DType::f16, DType::f32})
        for (index group : {0, 32, 8}) {
          Tensor<2> w(DType::f32, {n, k}, layouts[1]);
          w.uniform(rng, -1, 0.8);
          for (index i = 0; i < k; ++i) w.set(3 * k + i, 0);                                     // zeros
          for (index i = 0; i < k; ++i) w.set(4 * k + i, 0.5 + 0.001 * static_cast<double>(i));  // one sign
          w.set(n * k - 1, symmetric ? 2 : -2);  // the last element of the last group is its largest
          const auto made = quantize_w4a16(w, group, bits, symmetric, type, inlay::threads(2));
          ASSERT_TRUE(made) << made.error().message();
          const PackedW4& weight = *made;
          const index length = group == 0 ? k : group;
          const int last = (1 << bits) - 1, middle = 1 << (bits - 1);
          ASSERT_EQ(weight.zeros.size() == 0, symmetric);
          for (index c = 0; c < n; ++c)
            for (index g = 0; g < weight.groups(); ++g) {
              double low = 0, high = 0;
              for (index i = g * length; i < std::min(k, (g + 1) * length); ++i) {
                low = std::min(low, w.get(c * k + i));
                high = std::max(high, w.get(c * k + i));
              }
              const index at = (c / 16 * weight.groups() + g) * 16 + c % 16;
              const double extreme = -low > high ? low : high;
              const double exact = symmetric ? -extreme / middle : (high - low) / last;
              const double scale = load_element(weight.scales.data(), type, at);
              const double zero = symmetric ? middle : load_element(weight.zeros.data(), DType::u8, at);
              ASSERT_NEAR(scale, exact, (1 + 1e-6) * epsilon(type) * std::abs(exact) + underflow(type));
              if (scale == 0) continue;
              if (!symmetric) {
                ASSERT_NEAR(zero, -low / scale, 0.5 + 1e-4);
              }
              for (index i = g * length; i < std::min(k, (g + 1) * length); ++i) {
                const double code = weight.code(c, i), value = w.get(c * k + i);
                ASSERT_LE(std::abs(code - std::clamp(value / scale + zero, 0.0, 1.0 * last)), 0.5 + 1e-4)
                    << c << ' ' << i;
                if (symmetric && value == extreme) {
                  ASSERT_EQ(code, 0);  // the element of largest magnitude
                }
              }
            }
        }
}

// The limit is that of the stored scale: 65519 rounds to f16's largest number, 65520 to infinity.
TEST(linear_w4a16, quantizes_nothing_whose_scale_is_infinite) {
  const index n = 3, k = 8;
  const auto quantized = [&](double value, index bits, bool symmetric, DType type) {
    Tensor<2> w(DType::f32, {n, k});
    w.fill(0);
    w.set(2 * k + 3, value);
    return quantize_w4a16(w, 0, bits, symmetric, type);
  };
  for (index bits : {4, 5, 6, 8})
    for (bool symmetric : {true, false}) {
      const double steps = symmetric ? 1 << (bits - 1) : (1 << bits) - 1;
      for (const double sign : {1, -1}) {
        EXPECT_TRUE(quantized(sign * 65519 * steps, bits, symmetric, DType::f16));
        const auto beyond = quantized(sign * 65520 * steps, bits, symmetric, DType::f16);
        ASSERT_FALSE(beyond);
        for (const char* word : {"row 2", "f16"})
          EXPECT_NE(beyond.error().message().find(word), std::string_view::npos) << beyond.error().message();
        EXPECT_TRUE(quantized(sign * 65520 * steps, bits, symmetric, DType::f32));
      }
    }
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_FALSE(quantized(bad, 4, true, DType::f32));
}

TEST(linear_w4a16, quantizes_nothing_into_codes_that_there_are_not) {
  Tensor<2> w(DType::f32, {3, 16}), integers(DType::i8, {3, 16});
  w.fill(1), integers.fill(1);
  const auto words = [](const Expected<PackedW4>& made) {
    return made.has_value() ? std::string("made") : std::string(made.error().message());
  };
  EXPECT_EQ(words(quantize_w4a16(w, 8)), "made");
  EXPECT_EQ(words(quantize_w4a16(w, 8, 7)), "bits is 7; it must be 4, 5, 6 or 8");
  EXPECT_EQ(words(quantize_w4a16(w, 12)), "group is 12; it must be a multiple of 8, or 0 for the whole row");
  EXPECT_EQ(words(quantize_w4a16(w, -8)), "group is -8; it must be a multiple of 8, or 0 for the whole row");
  EXPECT_EQ(words(quantize_w4a16(integers, 8)), "weight has dtype i8; it must be one of f32 f16 bf16");
  EXPECT_EQ(words(quantize_w4a16(w, 8, 4, true, DType::u8)), "scales is u8; it must be one of f32 f16 bf16");
}

}  // namespace
}  // namespace inlay::test
