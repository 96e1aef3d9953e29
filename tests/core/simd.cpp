// The SIMD primitives of one level against scalar arithmetic. Built once per level (INLAY_LEVEL) and
// started by run_if_available, so that no instruction of a missing level is executed.
#include "cpu_kernels/simd/floats.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace inlay {
namespace {

using F = simd::Floats<isa::INLAY_LEVEL>;
constexpr index N = F::size;

std::vector<float> lanes(F v) {
  std::vector<float> out(N);
  v.store(out.data());
  return out;
}

const std::vector<float>& interesting() {
  static const std::vector<float> values = [] {
    const float inf = std::numeric_limits<float>::infinity();
    std::vector<float> list = {0.0f,     -0.0f,    1.0f,   -1.0f,   0.5f,
                               1.5f,     2.5f,     -2.5f,  127.5f,  -128.5f,
                               1e30f,    -1e30f,   1e-40f, -1e-40f, 0x1p-149f,
                               65504.0f, 65520.0f, inf,    -inf,    std::numeric_limits<float>::quiet_NaN()};
    std::mt19937 rng(1);
    for (int i = 0; i < 20000; ++i) list.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng())));
    std::uniform_real_distribution<float> near(-200, 200);
    while (list.size() % N != 0 || list.size() < 40000) list.push_back(near(rng));
    return list;
  }();
  return values;
}

template <class T> void narrows_and_widens_like_scalar() {
  const auto& values = interesting();
  for (std::size_t i = 0; i < values.size(); i += N) {
    T got[N];
    F::load(values.data() + i).store(got);
    float back[N];
    F::load(got).store(back);
    for (index k = 0; k < N; ++k) {
      if (std::isnan(values[i + k])) {
        ASSERT_TRUE(std::isnan(static_cast<float>(got[k])));
        ASSERT_TRUE(std::isnan(back[k]));
      } else {
        ASSERT_EQ(got[k].bits, T(values[i + k]).bits) << values[i + k];
        ASSERT_EQ(back[k], static_cast<float>(got[k]));
      }
    }
  }
}

TEST(simd, f16_bit_for_bit) { narrows_and_widens_like_scalar<f16>(); }
TEST(simd, bf16_bit_for_bit) { narrows_and_widens_like_scalar<bf16>(); }

TEST(simd, int8_rounds_to_even_and_saturates) {
  const auto& values = interesting();
  for (std::size_t i = 0; i < values.size(); i += N) {
    std::int8_t got[N];
    F::load(values.data() + i).store_i8(got);
    const std::vector<float> back = lanes(F::load(got));
    for (index k = 0; k < N; ++k) {
      const float v = values[i + k];
      const float expected = std::isnan(v) ? 0 : std::fmin(127.0f, std::fmax(-128.0f, std::nearbyint(v)));
      ASSERT_EQ(got[k], static_cast<int>(expected)) << v;
      ASSERT_EQ(back[k], expected);
    }
  }
}

template <class T> void partial_accesses_touch_n_lanes_only() {
  for (index n = 0; n <= N; ++n) {
    std::vector<T> memory;
    memory.reserve(1);                                    // no null pointer for n = 0
    memory.assign(static_cast<std::size_t>(n), T(3.0f));  // exactly n: ASan guards the rest
    const std::vector<float> got = lanes(F::load(memory.data(), n));
    for (index k = 0; k < N; ++k) ASSERT_EQ(got[k], k < n ? 3.0f : 0.0f);
    (F(2.0f)).store(memory.data(), n);
    for (index k = 0; k < n; ++k) ASSERT_EQ(static_cast<float>(memory[k]), 2.0f);
  }
}

TEST(simd, partial_accesses) {
  partial_accesses_touch_n_lanes_only<float>();
  partial_accesses_touch_n_lanes_only<f16>();
  partial_accesses_touch_n_lanes_only<bf16>();
  for (index n = 0; n <= N; ++n) {
    std::vector<std::int8_t> memory;
    memory.reserve(1);
    memory.assign(static_cast<std::size_t>(n), 7);
    ASSERT_EQ(reduce_sum(F::load(memory.data(), n)), 7.0f * static_cast<float>(n));
    F(-5.0f).store_i8(memory.data(), n);
    for (index k = 0; k < n; ++k) ASSERT_EQ(memory[k], -5);
    ASSERT_EQ(reduce_sum(select(F::first(n), F(1.0f), F())), static_cast<float>(n));
  }
}

TEST(simd, arithmetic_lane_by_lane) {
  const auto& values = interesting();
  for (std::size_t i = 0; i + 2 * N <= 4000; i += N) {
    const float *a = values.data() + i, *b = values.data() + i + N;
    const F x = F::load(a), y = F::load(b);
    const auto sum = lanes(x + y), product = lanes(x * y), quotient = lanes(x / y), low = lanes(min(x, y)),
               high = lanes(max(x, y)), magnitude = lanes(abs(x)), rounded = lanes(round(x)),
               chosen = lanes(select(x < y, F(1.0f), F(2.0f)));
    const auto same = [](float got, float expected) {
      return got == expected || (std::isnan(got) && std::isnan(expected));
    };
    for (index k = 0; k < N; ++k) {
      ASSERT_TRUE(same(sum[k], a[k] + b[k]));
      ASSERT_TRUE(same(product[k], a[k] * b[k]));
      ASSERT_TRUE(same(quotient[k], a[k] / b[k]));
      ASSERT_TRUE(same(low[k], a[k] < b[k] ? a[k] : b[k])) << a[k] << ' ' << b[k];  // b where one is NaN
      ASSERT_TRUE(same(high[k], a[k] > b[k] ? a[k] : b[k]));
      ASSERT_TRUE(same(magnitude[k], std::fabs(a[k])));
      ASSERT_TRUE(same(rounded[k], std::nearbyint(a[k])));
      ASSERT_EQ(chosen[k], a[k] < b[k] ? 1.0f : 2.0f);
    }
  }
}

TEST(simd, reductions_and_interleaving) {
  float ramp[2 * N];
  for (index k = 0; k < 2 * N; ++k) ramp[k] = static_cast<float>(k + 1);
  EXPECT_EQ(reduce_sum(F::load(ramp)), static_cast<float>(N * (N + 1) / 2));
  EXPECT_EQ(reduce_max(F::load(ramp)), static_cast<float>(N));
  EXPECT_EQ(reduce_min(F::load(ramp)), 1.0f);
  const auto pair = deinterleave(F::load(ramp), F::load(ramp + N));
  const auto even = lanes(pair.first), odd = lanes(pair.second);
  for (index k = 0; k < N; ++k) {
    EXPECT_EQ(even[k], ramp[2 * k]);
    EXPECT_EQ(odd[k], ramp[2 * k + 1]);
  }
  const auto back = interleave(pair.first, pair.second);
  EXPECT_EQ(lanes(back.first), std::vector<float>(ramp, ramp + N));
  EXPECT_EQ(lanes(back.second), std::vector<float>(ramp + N, ramp + 2 * N));
}

// The bound that floats.hpp promises, over the whole range where exp is neither 0 nor infinite.
TEST(simd, exp_is_within_its_bound) {
  double worst = 0;
  for (double x = -103.9; x < 88.7; x += 0.0007 * static_cast<double>(N)) {
    float in[N];
    for (index k = 0; k < N; ++k) in[k] = static_cast<float>(x + 0.0007 * static_cast<double>(k));
    const auto got = lanes(simd::exp(F::load(in)));
    for (index k = 0; k < N; ++k) {
      const double expected = std::exp(static_cast<double>(in[k]));
      int exponent;
      std::frexp(expected, &exponent);
      const double ulp = std::exp2(std::max(exponent - 24, -149));
      worst = std::max(worst, std::abs(got[k] - expected) / ulp);
    }
  }
  EXPECT_LT(worst, 1.5);
}

TEST(simd, exp_at_the_edges) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto of = [](float x) { return lanes(simd::exp(F(x)))[0]; };
  EXPECT_EQ(of(-inf), 0.0f);
  EXPECT_EQ(of(-1e30f), 0.0f);
  EXPECT_EQ(of(inf), inf);
  EXPECT_EQ(of(1e30f), inf);
  EXPECT_EQ(of(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(of(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace inlay
