// Functions against double: the bounds that their headers promise, over the whole line and at its ends.
#pragma once

#include <bit>
#include <numbers>

#include "cpu_kernels/simd/exp_double.hpp"
#include "cpu_kernels/simd/normal_cdf.hpp"
#include "cpu_kernels/simd/sigmoid.hpp"
#include "cpu_kernels/simd/sincos.hpp"
#include "cpu_kernels/simd/tanh.hpp"
#include "tests/core/simd/lanes.hpp"

namespace inlay {
namespace {

// A float's distance to the next one, at `exact`.
double ulp_at(double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::exp2(std::max(exponent - 24, -149));
}

// The worst |got - exact| / unit(x) over floats in steps from low to high.
template <class Function, class Exact, class Unit>
double worst(double low, double high, index count, Function function, Exact exact, Unit unit) {
  double most = 0;
  for (index k = 0; k < count; k += N) {
    Lanes in;
    for (index i = 0; i < N; ++i)
      in[i] = static_cast<float>(low + (high - low) * static_cast<double>(std::min(k + i, count)) /
                                           static_cast<double>(count));
    const Lanes got = lanes(function(F::load(in.data())));
    for (index i = 0; i < N; ++i) {
      const double x = in[i];
      most = std::max(most, std::abs(got[i] - exact(x)) / unit(x));
    }
  }
  return most;
}
template <class Function, class Exact>
double worst_ulps(double low, double high, index count, Function function, Exact exact) {
  return worst(low, high, count, function, exact, [&](double x) { return ulp_at(exact(x)); });
}

TEST(simd, exp_is_within_its_bound) {
  const auto got = [](F x) { return simd::exp(x); };
  const auto exact = [](double x) { return std::exp(x); };
  EXPECT_LT(worst_ulps(-103.97, 88.722, 300000, got, exact), 1.5);
  EXPECT_LT(worst_ulps(-103.98, -86, 50000, got, exact), 1.5);  // to the least subnormal number
  EXPECT_LT(worst_ulps(88, 88.722, 20000, got, exact), 1.5);    // to the largest one
  EXPECT_LT(worst_ulps(-0x1p-20, 0x1p-20, 2000, got, exact), 1.5);
}

TEST(simd, exp_at_the_edges) {
  const auto of = [](float x) { return lanes(simd::exp(F(x))); };
  for (float x : {-infinity, -1e30f, -3.4e38f, -150.0f, -105.0f, -104.00001f})
    for (float y : of(x)) EXPECT_EQ(bits_of(y), 0u) << x;
  for (float x : {infinity, 1e30f, 3.4e38f, 150.0f, 89.0f, 88.73f, 88.75f})
    for (float y : of(x)) EXPECT_EQ(y, infinity) << x;
  for (float y : of(0.0f)) EXPECT_EQ(y, 1.0f);
  for (float y : of(not_a_number)) EXPECT_TRUE(std::isnan(y));
}

// Weights of a softmax: what rounds x / ln 2 besides is half an ulp of x.
TEST(simd, weight_exp_is_within_its_bound) {
  const auto got = [](F x) { return simd::weight_exp(x); };
  const auto exact = [](double x) { return std::exp(x); };
  const auto unit = [](double x) { return ulp_at(std::exp(x)) * (2.1 - x / std::numbers::ln2); };
  EXPECT_LT(worst(-87.3, 0, 300000, got, exact, unit), 1);
  EXPECT_LT(worst(-1, 0, 100000, got, exact, unit), 1);
  EXPECT_GT(worst(-1, 0, 100000, got, exact, unit), 0.5);
  EXPECT_LT(worst(-0x1p-20, 0, 2000, got, exact, unit), 1);
  EXPECT_LT(worst(-105, -87.3, 20000, got, exact, [](double) { return 0x1p-126; }), 1);
}

TEST(simd, weight_exp_at_the_edges) {
  const auto of = [](float x) { return lanes(simd::weight_exp(F(x))); };
  for (float x : {-infinity, -1e30f, -3.4e38f, -150.0f, -105.0f, -104.7f})
    for (float y : of(x)) EXPECT_EQ(bits_of(y), 0u) << x;
  for (float y : of(0.0f)) EXPECT_EQ(y, 1.0f);
  for (float y : of(-0.0f)) EXPECT_EQ(y, 1.0f);
  for (float y : of(not_a_number)) EXPECT_TRUE(std::isnan(y));
  for (std::uint32_t payload : {0x7f800001u, 0xffc00001u, 0x7fffffffu, 0x7fc001ffu})
    for (float y : of(std::bit_cast<float>(payload))) EXPECT_TRUE(std::isnan(y)) << payload;
}

// Those of normal powers are exact, and the lowest is none.
TEST(simd, powers_of_two_vanish) {
  std::mt19937 rng(4);
  std::uniform_real_distribution<float> values(0.7f, 1.42f);
  for (int n = static_cast<int>(F::vanishing_power); n <= 127; ++n)
    for (int k = 0; k < 8; ++k) {
      Lanes p;
      for (float& lane : p) lane = values(rng);
      const Lanes got = lanes(scale_or_vanish(F::load(p.data()), F(static_cast<float>(n))));
      for (index i = 0; i < N; ++i)
        if (const double exact = std::ldexp(static_cast<double>(p[i]), n); n >= -126)
          ASSERT_EQ(got[i], static_cast<float>(exact)) << p[i] << " * 2^" << n;
        else
          ASSERT_TRUE(got[i] == 0 || (got[i] == static_cast<float>(exact) && n > F::vanishing_power)) << n;
    }
}

// In two factors the result is rounded once: p * 2^n in double, rounded to f32, is the same.
TEST(simd, powers_of_two_round_once) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<float> values(0.7f, 1.42f);
  for (int n = -150; n <= 128; ++n)
    for (int k = 0; k < 32; ++k) {
      Lanes p;
      for (float& lane : p) lane = values(rng);
      const Lanes got = lanes(scale_by_power(F::load(p.data()), F(static_cast<float>(n))));
      for (index i = 0; i < N; ++i)
        ASSERT_EQ(got[i], static_cast<float>(std::ldexp(static_cast<double>(p[i]), n))) << p[i] << " * 2^" << n;
    }
}

TEST(simd, sigmoid_is_within_its_bound) {
  const auto got = [](F x) { return simd::sigmoid(x); };
  const auto exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LT(worst_ulps(-87, 40, 200000, got, exact), 4);
  EXPECT_LT(worst_ulps(-0.01, 0.01, 2000, got, exact), 4);
  EXPECT_LT(worst_ulps(-103, -87, 20000, got, exact), 4);  // of steps of 2^-149
  const auto of = [](float x) { return lanes(simd::sigmoid(F(x)))[N - 1]; };
  EXPECT_EQ(of(infinity), 1.0f);
  EXPECT_EQ(of(3e38f), 1.0f);
  EXPECT_EQ(of(-infinity), 0.0f);
  EXPECT_EQ(of(-3e38f), 0.0f);
  EXPECT_EQ(of(0.0f), 0.5f);
  EXPECT_EQ(of(-0.0f), 0.5f);
  EXPECT_TRUE(std::isnan(of(not_a_number)));
}

TEST(simd, tanh_is_within_its_bound) {
  const auto got = [](F x) { return simd::tanh(x); };
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_LT(worst_ulps(-12, 12, 200000, got, exact), 3);
  EXPECT_LT(worst_ulps(0.62, 0.63, 5000, got, exact), 3);
  EXPECT_LT(worst_ulps(-0x1p-10, 0x1p-10, 5000, got, exact), 3);
  const auto of = [](float x) { return lanes(simd::tanh(F(x)))[N - 1]; };
  for (float sign : {1.0f, -1.0f})
    for (float x : {infinity, 3e38f, 50.0f}) EXPECT_EQ(of(sign * x), sign);
  EXPECT_EQ(of(0.0f), 0.0f);
  EXPECT_EQ(of(1e-30f), 1e-30f);
  EXPECT_EQ(of(-0x1p-149f), -0x1p-149f);
  EXPECT_TRUE(std::isnan(of(not_a_number)));
}

// 6.1 eps for Mills' ratio. The distribution itself: 3 eps for exp, x^2/2 for its exponent and 1 for the product, of
// the tail; the other side is one minus that, rounded.
TEST(simd, normal_distribution_is_within_its_bound) {
  const double eps = 0x1p-24, root_half = std::sqrt(0.5);
  const auto ratio = [&](double x) {
    const long double z = static_cast<long double>(x);
    return static_cast<double>(std::erfc(z * std::sqrt(0.5L)) / 2 * std::exp(z * z / 2));
  };
  EXPECT_LT(
      worst(
          0, 15, 100000, [](F x) { return simd::scaled_tail(x); }, ratio, [&](double x) { return eps * ratio(x); }),
      6.5);
  const auto exact = [&](double x) { return std::erfc(-x * root_half) / 2; };
  const auto unit = [&](double x) {
    const double tail = exact(-std::abs(x));
    return eps * ((10.1 + x * x / 2) * tail + (x < 0 ? 0 : exact(x))) + 0x1p-149;
  };
  const double share = worst(
      -15, 15, 200000, [](F x) { return simd::normal_cdf(x); }, exact, unit);
  EXPECT_LT(share, 1);
  EXPECT_GT(share, 1.0 / 10);
  const auto of = [](float x) { return lanes(simd::normal_cdf(F(x)))[N - 1]; };
  EXPECT_EQ(of(infinity), 1.0f);
  EXPECT_EQ(of(-infinity), 0.0f);
  EXPECT_EQ(of(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(of(not_a_number)));
}

// The reduction is right to 2^-53 and the series to less: near multiples of a quarter turn and far out as well.
TEST(simd, sine_and_cosine_to_a_few_bits_of_double) {
  std::mt19937_64 rng(4);
  const long double quarter = 1.57079632679489661923132169163975144L;
  double most = 0;
  for (double reach : {1.0, 100.0, 1e6, simd::sincos_reach}) {
    std::uniform_real_distribution<double> angles(-reach, reach);
    for (int k = 0; k < 4000; ++k) {
      double angle[simd::sincos_width], sine[simd::sincos_width], cosine[simd::sincos_width];
      for (int i = 0; i < simd::sincos_width; ++i) {
        angle[i] = angles(rng);
        if (i % 2) angle[i] = static_cast<double>(quarter * std::trunc(angle[i] / quarter));
        if (!(std::abs(angle[i]) < simd::sincos_reach)) angle[i] = 0;
      }
      simd::sincos(angle, sine, cosine);
      for (int i = 0; i < simd::sincos_width; ++i) {
        const double s = static_cast<double>(std::sin(static_cast<long double>(angle[i])) - sine[i]);
        const double c = static_cast<double>(std::cos(static_cast<long double>(angle[i])) - cosine[i]);
        ASSERT_LE(std::abs(s), 4 * 0x1p-53) << angle[i];
        ASSERT_LE(std::abs(c), 4 * 0x1p-53) << angle[i];
        most = std::max({most, std::abs(s), std::abs(c)});
      }
    }
  }
  EXPECT_GT(most, 0x1p-54);
}

TEST(simd, exp_in_double_is_within_an_ulp) {
  std::mt19937_64 rng(5);
  for (double low : {-1.0, -50.0, simd::exp_lowest}) {
    std::uniform_real_distribution<double> values(low, 0);
    for (int k = 0; k < 8000; ++k) {
      double z[simd::exp_width], got[simd::exp_width];
      for (double& value : z) value = values(rng);
      simd::exp_not_positive(z, got);
      for (int i = 0; i < simd::exp_width; ++i) {
        const long double exact = std::exp(static_cast<long double>(z[i]));
        int exponent;
        std::frexp(static_cast<double>(exact), &exponent);
        ASSERT_LE(std::abs(static_cast<double>(exact - got[i])), std::ldexp(1.0, exponent - 53)) << z[i];
      }
    }
  }
  const double inf = infinity, low = simd::exp_lowest;
  const double z[simd::exp_width] = {0, -0.0, -inf, std::nextafter(low, -inf), low, -1e300, -0x1p-60, -1000};
  double got[simd::exp_width];
  simd::exp_not_positive(z, got);
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], 1);
  EXPECT_EQ(got[2], 0);
  EXPECT_EQ(got[3], 0);
  EXPECT_NEAR(got[4] / std::exp(low), 1, 0x1p-51);
  EXPECT_EQ(got[5], 0);
  EXPECT_EQ(got[6], 1);
  EXPECT_EQ(got[7], 0);
}

}  // namespace
}  // namespace inlay
