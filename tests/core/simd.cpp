// The SIMD primitives of one level against scalar arithmetic. Built once per level (INLAY_LEVEL) and started by
// run_if_available, so that no instruction of a missing level is executed. One program is one source: its topics are
// the headers in tests/core/simd/.
#include "tests/core/simd/conversions.hpp"
#include "tests/core/simd/functions.hpp"
#include "tests/core/simd/integers.hpp"
#include "tests/core/simd/moves.hpp"

namespace inlay {
namespace {

const std::vector<float>& interesting() {
  static const std::vector<float> values = [] {
    std::vector<float> list = {0.0f,      -0.0f,    1.0f,     -1.0f,    0.5f,      1.5f,        2.5f,
                               -2.5f,     127.5f,   -128.5f,  1e30f,    -1e30f,    1e-40f,      -1e-40f,
                               0x1p-149f, 65504.0f, 65520.0f, infinity, -infinity, not_a_number};
    std::mt19937 rng(1);
    for (int i = 0; i < 20000; ++i) list.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng())));
    std::uniform_real_distribution<float> near(-200, 200);
    while (list.size() % N != 0 || list.size() < 40000) list.push_back(near(rng));
    return list;
  }();
  return values;
}

TEST(simd, arithmetic_lane_by_lane) {
  const auto& values = interesting();
  const auto same = [](float got, float expected) {
    return bits_of(got) == bits_of(expected) || (std::isnan(got) && std::isnan(expected));
  };
  for (std::size_t i = 0; i + 3 * N <= values.size(); i += N) {
    const float *a = values.data() + i, *b = values.data() + i + N, *c = values.data() + i + 2 * N;
    const F x = F::load(a), y = F::load(b), z = F::load(c);
    const Lanes sum = lanes(x + y), difference = lanes(x - y), product = lanes(x * y), quotient = lanes(x / y),
                fused = lanes(fma(x, y, z)), low = lanes(min(x, y)), high = lanes(max(x, y)), magnitude = lanes(abs(x)),
                root = lanes(sqrt(x)), rounded = lanes(round(x)), chosen = lanes(select(x < y, F(1.0f), F(2.0f)));
    for (index k = 0; k < N; ++k) {
      ASSERT_TRUE(same(sum[k], a[k] + b[k]));
      ASSERT_TRUE(same(difference[k], a[k] - b[k]));
      ASSERT_TRUE(same(product[k], a[k] * b[k]));
      ASSERT_TRUE(same(quotient[k], a[k] / b[k]));
      // The scalar level has no instruction for it and rounds twice.
      ASSERT_TRUE(same(fused[k], N == 1 ? a[k] * b[k] + c[k] : std::fma(a[k], b[k], c[k])));
      ASSERT_TRUE(same(low[k], a[k] < b[k] ? a[k] : b[k])) << a[k] << ' ' << b[k];  // b where one is NaN
      ASSERT_TRUE(same(high[k], a[k] > b[k] ? a[k] : b[k]));
      ASSERT_TRUE(same(magnitude[k], std::fabs(a[k])));
      ASSERT_TRUE(same(root[k], std::sqrt(a[k])));
      ASSERT_TRUE(same(rounded[k], std::nearbyint(a[k])));
      ASSERT_EQ(chosen[k], a[k] < b[k] ? 1.0f : 2.0f);
    }
  }
  for (float lane : lanes(F())) EXPECT_EQ(bits_of(lane), 0u);
  for (float lane : lanes(F(-3.5f))) EXPECT_EQ(lane, -3.5f);
}

TEST(simd, nan_and_zeros_choose_the_second_operand) {
  for (const auto& [a, b] : {std::pair{not_a_number, 3.0f}, {3.0f, not_a_number}, {0.0f, -0.0f}, {-0.0f, 0.0f}}) {
    const Lanes low = lanes(min(F(a), F(b))), high = lanes(max(F(a), F(b)));
    for (index k = 0; k < N; ++k) {
      EXPECT_EQ(bits_of(low[k]), bits_of(b)) << a << ' ' << b;
      EXPECT_EQ(bits_of(high[k]), bits_of(b)) << a << ' ' << b;
    }
  }
}

TEST(simd, rounding_is_to_even) {
  for (int k = -300; k < 300; ++k) {
    const float half = static_cast<float>(k) + 0.5f;
    const Lanes got = lanes(round(F(half)));
    for (float lane : got) ASSERT_EQ(lane, k % 2 == 0 ? k : k + 1) << half;
  }
  for (float whole : {0x1p23f + 1, 0x1p24f + 2, -0x1p30f, infinity})
    for (float lane : lanes(round(F(whole)))) EXPECT_EQ(lane, whole);
}

// Both flags of the thread, each seen to work and to end.
TEST(simd, flushing) {
  if constexpr (fp::can_flush) {
    const volatile float least = 0x1p-149f, normal = 0x1p-126f;
    fp::set_flushes(true);
    const float operand = least * 0x1p100f, result = normal * 0.5f;
    fp::set_flushes(false);
    const float operand_after = least * 0x1p100f, result_after = normal * 0.5f;
    EXPECT_EQ(operand, 0);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(operand_after, 0x1p-49f);
    EXPECT_EQ(result_after, 0x1p-127f);
  }
}

}  // namespace
}  // namespace inlay
