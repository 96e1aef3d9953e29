// From floats to integers and back where every number is known: ties go to the even integer, quotients are quotients.
#include <inlay/ops/quantize.hpp>

#include "tests/linear_int8/case.hpp"

namespace inlay::test {
namespace {

// (m + 1/2) steps of odd * 2^-8, as far as x's type can hold them: the product with 1 / step would not be a tie.
void fill_with_ties(Case& c, index t, int odd, int zero, Rng& rng) {
  const index k = c.x.extents()[1];
  const int bits = c.x.dtype() == DType::f32 ? 24 : c.x.dtype() == DType::f16 ? 11 : 8;
  const int max_halves = std::min(2 * 127, ((1 << bits) - 1) / odd);
  for (index i = 0; i < k; ++i) {
    const int halves = static_cast<int>(rng() % static_cast<unsigned>(2 * max_halves + 1)) - max_halves;
    const int within = std::clamp(halves, 2 * (-128 - zero), 2 * (127 - zero));
    c.x.set(t * k + i, (within % 2 ? within : within / 2 * 2) * odd * 0x1p-9);
  }
}

TEST(linear_int8, static_ties_of_x) {
  Rng rng(11);
  for (DType x : float_types)
    for (bool zeros : {false, true})
      for (DType y : {DType::f32, DType::f16}) {
        const index tokens = 14, n = 19, k = 67;
        Case c = make(x, y, tokens, n, k, layouts[1], rng);
        c.w.integers(rng, -20, 20);
        c.pack();
        c.x_scale = Tensor<1>(DType::f32, {tokens});
        if (zeros) c.x_zero = zero_points(DType::i8, tokens, rng);
        for (index t = 0; t < tokens; ++t) {
          c.x_scale.set(t, (2 * t + 3) * 0x1p-8);
          fill_with_ties(c, t, static_cast<int>(2 * t + 3), zeros ? static_cast<int>(c.x_zero.get(t)) : 0, rng);
        }
        c.weight_scale = Tensor<1>(DType::f32, {1}).fill(0.5);
        ASSERT_NO_FATAL_FAILURE(compare_exactly(c));
      }
}

// The largest |x| is 127 steps, in the last element or in the middle, of either sign; or x spans 255 of them.
TEST(linear_int8, dynamic_ties_of_x) {
  Rng rng(12);
  for (DType x : float_types)
    for (bool asymmetric : {false, true})
      for (index k : {2, 9, 17, 64, 67, 130}) {
        const index tokens = 13, n = 18;
        Case c = make(x, DType::f32, tokens, n, k, layouts[2], rng);
        c.w.integers(rng, -9, 9);
        c.pack();
        c.asymmetric = asymmetric;
        for (index t = 0; t < tokens; ++t) {
          const int odd = x == DType::bf16 ? 1 : static_cast<int>(2 * (t / 2) + 1);
          const int below = asymmetric ? 17 * static_cast<int>(t) : t % 2 ? 127 : 60, above = 255 - below;
          fill_with_ties(c, t, odd, 0, rng);
          for (index i = 0; i < k; ++i) {
            const double x_low = -below * odd * 0x1p-8, x_high = (asymmetric ? above : 127) * odd * 0x1p-8;
            c.x.set(t * k + i, std::clamp(c.x.get(t * k + i), x_low, x_high));
          }
          const index last = t * k + k - 1, middle = t * k + (k - 2) / 2;
          if (asymmetric) {
            c.x.set(t % 3 ? last : middle, above * odd * 0x1p-8);
            c.x.set(t % 3 ? middle : last, -below * odd * 0x1p-8);
          } else {
            c.x.set(t % 3 ? last : middle, (t % 2 ? -127 : 127) * odd * 0x1p-8);
          }
        }
        c.weight_scale = Tensor<1>(DType::f32, {1}).fill(2);
        ASSERT_NO_FATAL_FAILURE(compare_exactly(c));
      }
}

// Sums times powers of two, divided by odd numbers of twice that power: one in six is a tie.
TEST(linear_int8, ties_of_y) {
  Rng rng(13);
  for (DType x : {DType::i8, DType::u8})
    for (DType y : {DType::i8, DType::u8, DType::f32, DType::f16, DType::bf16})
      for (int odd : {3, 5, 7, 11, 13, 23}) {
        const index tokens = 13, n = 37, k = 21;
        Case c = make(x, y, tokens, n, k, layouts[1], rng);
        c.x.integers(rng, std::max(least(x), -9), 9);
        c.w.integers(rng, -9, 9);
        c.pack();
        c.x_scale = Tensor<1>(DType::f32, {tokens}).fill(0.25);
        c.weight_scale = Tensor<1>(DType::f32, {n}).fill(0x1p-5);
        c.bias = Tensor<1>(DType::f32, {n});
        for (index i = 0; i < n; ++i) c.bias.set(i, static_cast<double>(static_cast<int>(rng() % 101) - 50) * 0x1p-7);
        if (c.integral()) {
          c.y_scale = Tensor<1>(DType::f32, {1}).fill(odd * 0x1p-6);
          c.y_zero = zero_points(y, 1, rng);
        }
        ASSERT_NO_FATAL_FAILURE(compare_exactly(c));
      }
}

// Far beyond the integers on both sides, and where the zero point brings some of it back.
TEST(linear_int8, y_saturates_on_both_sides) {
  Rng rng(14);
  for (DType y : {DType::i8, DType::u8})
    for (double zero : {-128.0, 0.0, 127.0, 255.0}) {
      if (zero != round_to(y, zero)) continue;
      Case c = make(DType::i8, y, 3, 33, 9, {}, rng);
      c.x_scale = Tensor<1>(DType::f32, {1}).fill(1);
      c.weight_scale = Tensor<1>(DType::f32, {33});
      for (index i = 0; i < 33; ++i) c.weight_scale.set(i, std::ldexp(1, static_cast<int>(i) * 7 - 110));  // to 2^114
      c.y_scale = Tensor<1>(DType::f32, {1}).fill(1);
      c.y_zero = Tensor<1>(y, {1}).fill(zero);
      ASSERT_NO_FATAL_FAILURE(compare_exactly(c));
    }
}

// Rows of zeros, of one number, of one sign: where the dynamic scale and its zero point stand at their ends.
TEST(linear_int8, dynamic_scales_of_special_rows) {
  Rng rng(15);
  RoundedIntegers integers;
  for (DType x : float_types)
    for (DType y : {DType::f32, DType::i8})
      for (bool asymmetric : {false, true}) {
        const index tokens = 13, n = 20, k = 35;
        Case c = make(x, y, tokens, n, k, {}, rng);
        for (index t = 0; t < tokens; ++t)
          for (index i = 0; i < k; ++i) {
            const double value = c.x.get(t * k + i);
            const double all[] = {
                0, 0.75, -0.75, std::abs(value), -std::abs(value), 1 + 0.01 * value, -1 + 0.01 * value};
            if (t < 7) c.x.set(t * k + i, all[t]);
            if (t >= 7) c.x.set(t * k + i, std::ldexp(value, static_cast<int>(t - 10) * (x == DType::f16 ? 4 : 30)));
          }
        c.asymmetric = asymmetric;
        c.weight_scale = ones_about(n, 0.01, rng);
        c.bias = Tensor<1>(DType::bf16, {n}).uniform(rng);
        if (c.integral()) c.y_scale = Tensor<1>(DType::f32, {1}).fill(0.125);
        ASSERT_NO_FATAL_FAILURE(compare(c, integers));
      }
}

// high - low is beyond f32, and no result is. A row beside it is as ever.
TEST(linear_int8, spans_beyond_f32) {
  Rng rng(17);
  RoundedIntegers integers;
  for (DType x : {DType::f32, DType::bf16}) {
    Case c = make(x, DType::f32, 2, 20, 35, {}, rng);
    for (index i = 0; i < 35; ++i) c.x.set(i, c.x.get(i) * 1e38);
    c.x.set(3, 3e38), c.x.set(4, -2e38);
    c.asymmetric = true;
    c.weight_scale = Tensor<1>(DType::f32, {1}).fill(1e-9);
    ASSERT_NO_FATAL_FAILURE(compare(c, integers));
    Reference reference;
    ASSERT_TRUE(ok(run(reference, c.op())));
    for (index k = 0; k < c.y.size(); ++k) ASSERT_TRUE(std::isfinite(c.y.get(k)));
  }
}

// One half step of x times |w| and one of w times |x| per product, quantized by the operator quantize.
TEST(linear_int8, stays_near_the_float_layer) {
  Rng rng(16);
  const index tokens = 4, n = 50, k = 300;
  Case c = make(DType::f32, DType::f32, tokens, n, k, {}, rng);
  Tensor<2> w(DType::f32, {n, k});
  w.uniform(rng, -0.1, 0.1);
  c.weight_scale = Tensor<1>(DType::f32, {n});
  Reference reference;
  ASSERT_TRUE(ok(run(reference, Quantize<Host>{.x = w, .y = c.w, .row_scale = c.weight_scale})));
  c.pack();
  on_every_backend([&](const std::string&, auto run) {
    ASSERT_TRUE(ok(run(c.op())));
    for (index t = 0; t < tokens; ++t)
      for (index o = 0; o < n; ++o) {
        double exact = 0, squares = 0, largest = 0;
        for (index i = 0; i < k; ++i) largest = std::max(largest, std::abs(c.x.get(t * k + i)));
        const double half_x = largest / 254, half_w = c.weight_scale.get(o) / 2;
        for (index i = 0; i < k; ++i) {
          const double a = c.x.get(t * k + i), b = w.get(o * k + i);
          exact += a * b;
          squares += half_x * half_x * b * b + half_w * half_w * a * a;
        }
        // A walk of errors that are evenly spread over half a step: 0.58 of it each, and five deviations.
        ASSERT_NEAR(c.y.get(t * n + o), exact, 3 * std::sqrt(squares));
      }
  });
}

}  // namespace
}  // namespace inlay::test
