#include <inlay/core/online_softmax.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace inlay {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(online_softmax, empty_is_neutral) {
  const SoftmaxState<double> empty, a{3.5, 1.25};
  for (const auto& both : {merge(a, empty), merge(empty, a)}) {
    EXPECT_EQ(both.state.max, 3.5);
    EXPECT_EQ(both.state.sum, 1.25);
  }
  EXPECT_EQ(merge(a, empty).scale_a, 1);
  EXPECT_EQ(merge(a, empty).scale_b, 0);
  const auto nothing = merge(empty, empty);
  EXPECT_EQ(nothing.state.lse(), -infinity);
  EXPECT_EQ(nothing.state.inverse(), 0);
  EXPECT_EQ(merge_lse(-infinity, -infinity).lse, -infinity);
  EXPECT_EQ(merge_lse(-infinity, -infinity).scale_a, 0);
  EXPECT_EQ(merge_lse(2.0, -infinity).scale_a, 1);
  EXPECT_EQ(merge_lse(2.0, -infinity).lse, 2);
}

TEST(online_softmax, parts_give_the_whole) {
  std::mt19937 rng(1);
  std::uniform_real_distribution<double> values(-100, 100);
  std::vector<double> s(37);
  for (double& x : s) x = values(rng);
  double max = -infinity, sum = 0;
  for (double x : s) max = std::max(max, x);
  for (double x : s) sum += std::exp(x - max);
  for (std::size_t cut : {0, 1, 18, 36, 37}) {
    SoftmaxState<double> a, b;
    for (std::size_t j = 0; j < cut; ++j) a = add(a, s[j]).state;
    for (std::size_t j = cut; j < s.size(); ++j) b = add(b, s[j]).state;
    EXPECT_NEAR(merge(a, b).state.lse(), max + std::log(sum), 1e-13 * max);
    const auto by_lse = merge_lse(a.lse(), b.lse());
    EXPECT_NEAR(by_lse.lse, max + std::log(sum), 1e-13 * max);
    EXPECT_NEAR(by_lse.scale_a + by_lse.scale_b, 1, 1e-15);
  }
}

TEST(online_softmax, a_nan_or_infinite_score_is_not_lost) {
  for (double bad : {infinity, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(add(add(SoftmaxState<double>{}, 1.0).state, bad).state.lse()));
    EXPECT_TRUE(std::isnan(add(add(SoftmaxState<double>{}, bad).state, 1.0).state.lse()));
  }
  EXPECT_EQ(add(add(SoftmaxState<double>{}, -infinity).state, 1.0).state.lse(), 1);
}

// An lse of +inf or NaN is no weight: whatever it is merged with, the row is NaN.
TEST(online_softmax, a_nan_or_infinite_lse_is_not_lost) {
  for (double bad : {infinity, std::numeric_limits<double>::quiet_NaN()})
    for (double other : {-infinity, -3.0, infinity, bad})
      for (const auto& both : {merge_lse(bad, other), merge_lse(other, bad)}) {
        EXPECT_TRUE(std::isnan(both.lse)) << bad << " " << other;
        EXPECT_TRUE(std::isnan(both.scale_a) || std::isnan(both.scale_b)) << bad << " " << other;
      }
}

// FlashInfer's states: log2 of the same sum.
TEST(online_softmax, lse_to_base_2_and_back) {
  EXPECT_DOUBLE_EQ(lse_from_base2(3.0), std::log(8.0));
  EXPECT_DOUBLE_EQ(lse_to_base2(std::log(8.0)), 3);
  EXPECT_FLOAT_EQ(lse_from_base2(3.0f), std::log(8.0f));
  for (double lse : {-1e5, -2.5, 0.0, 1.0, 37.25}) {
    EXPECT_NEAR(lse_to_base2(lse_from_base2(lse)), lse, 1e-15 * std::abs(lse));
    EXPECT_NEAR(lse_from_base2(lse), std::log(2.0) * lse, 1e-15 * std::abs(lse));
  }
  for (double lse : {-infinity, infinity}) {
    EXPECT_EQ(lse_from_base2(lse), lse);
    EXPECT_EQ(lse_to_base2(lse), lse);
  }
  EXPECT_TRUE(std::isnan(lse_from_base2(std::nan(""))));
}

}  // namespace
}  // namespace inlay
