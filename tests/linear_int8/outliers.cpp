// Shadow outliers, and tokens that are not finite.
#include "tests/linear_int8/case.hpp"

namespace inlay::test {
namespace {

TEST(linear_int8, shadow_outliers_undo_the_clipping) {
  Rng rng(21);
  RoundedIntegers integers;
  for (DType x : float_types)
    for (bool zeros : {false, true})
      for (index k : {1, 5, 63, 64, 65, 193})
        for (DType y : {DType::f32, DType::bf16, DType::i8}) {
          const index tokens = 13, n = 37;
          Case c = make(x, y, tokens, n, k, layouts[1], rng);
          // Few outliers, on both sides, the last element among them. Their numbers are integers, whose products and sums
          // f32 holds.
          for (index i = 0; i < c.x.size(); i += 17) c.x.set(i, 40 + static_cast<double>(i % 5));
          for (index i = 3; i < c.x.size(); i += 29) c.x.set(i, -20 - static_cast<double>(i % 3));
          c.x.set(c.x.size() - 1, 30);
          c.x.set(k - 1, -1.25);  // just beyond
          c.x_scale = zeros ? ones_about(tokens, 1.0 / 127, rng) : Tensor<1>(DType::f32, {1}).fill(1.0 / 127);
          if (zeros) c.x_zero = zero_points(DType::i8, tokens, rng);
          if (zeros) c.weight_zero = zero_points(DType::i8, n, rng);
          c.weight_scale = ones_about(n, 0.01, rng);
          if (k % 2) c.bias = Tensor<1>(DType::f32, {n}).uniform(rng);
          if (c.integral()) c.y_scale = Tensor<1>(DType::f32, {1}).fill(0.5 * std::sqrt(static_cast<double>(k)));
          c.shadow_outliers = true;
          ASSERT_NO_FATAL_FAILURE(compare(c, integers));
        }
}

// The answer is that of activations that were never clipped.
TEST(linear_int8, shadow_outliers_by_hand) {
  Rng rng(22);
  const index tokens = 3, n = 18, k = 70;
  Case c = make(DType::f32, DType::f32, tokens, n, k, {}, rng);
  c.x.integers(rng, -100, 100);
  c.x.set(5, 1000), c.x.set(63, -1001), c.x.set(64, 128), c.x.set(69, -129), c.x.set(tokens * k - 1, 500);
  c.x_scale = Tensor<1>(DType::f32, {1}).fill(1);
  c.x_zero = Tensor<1>(DType::i8, {1}).fill(3);
  c.weight_zero = Tensor<1>(DType::i8, {1}).fill(-7);
  c.weight_scale = Tensor<1>(DType::f32, {1}).fill(1);
  c.shadow_outliers = true;
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index t = 0; t < tokens; ++t)
      for (index o = 0; o < n; ++o) {
        double sum = 0;
        for (index i = 0; i < k; ++i) sum += c.x.get(t * k + i) * (c.w.get(o * k + i) + 7);
        ASSERT_EQ(got.y.get(t * n + o), sum) << t << ' ' << o;
      }
  });
}

// NaN in floats, y's zero point in integers; its neighbours are what they are without it.
TEST(linear_int8, a_token_with_nan_or_inf_gives_nan_and_leaves_the_others) {
  Rng rng(23);
  constexpr index tokens = 3, n = 17, k = 41;
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
    for (index where : {0, 7, 40})
      for (int form : {0, 1, 2, 3})
        for (DType y : {DType::f32, DType::u8}) {
          Case healthy = make(DType::f32, y, tokens, n, k, {}, rng);
          healthy.weight_scale = ones_about(n, 0.01, rng);
          healthy.bias = Tensor<1>(DType::f32, {n}).uniform(rng);
          if (form == 1 || form == 2) healthy.x_scale = Tensor<1>(DType::f32, {1}).fill(0.001);
          healthy.shadow_outliers = form == 2;
          healthy.asymmetric = form == 3;
          if (healthy.integral()) {
            healthy.y_scale = Tensor<1>(DType::f32, {1}).fill(0.25);
            healthy.y_zero = Tensor<1>(y, {1}).fill(77);
          }
          Case c = healthy;
          c.x.set(k + where, bad);
          on_every_backend([&](const std::string&, auto run) {
            Case got = c, other = healthy;
            ASSERT_TRUE(ok(run(got.op())));
            ASSERT_TRUE(ok(run(other.op())));
            for (index i = 0; i < tokens * n; ++i) {
              if (i / n != 1) {
                ASSERT_EQ(got.y.get(i), other.y.get(i)) << i;
              } else if (got.integral()) {
                ASSERT_EQ(got.y.get(i), 77) << i;
              } else {
                ASSERT_TRUE(std::isnan(got.y.get(i))) << i;
              }
            }
          });
        }
}

}  // namespace
}  // namespace inlay::test
