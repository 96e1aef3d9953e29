// Where the contract rounds on the way, by numbers that show it, and rows without a finite answer.
#include "tests/support/rms_norm_case.hpp"

namespace inlay::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Answer {
  DType type, weight_type;
  double x, weight, y;
  float offset = 0;
};

// The reference and every backend on a row of `dim` equal numbers.
void expect(const Answer& answer, float eps) {
  SCOPED_TRACE(answer.y);
  const auto expect_with = [&](auto&& run) {
    Tensor<2> x(answer.type, {2, 19}), y(answer.type, {2, 19});
    Tensor<1> weight(answer.weight_type, {19});
    x.fill(answer.x), weight.fill(answer.weight), y.poison();
    ASSERT_TRUE(ok(run(RmsNorm<Host>{.x = x, .weight = weight, .y = y, .eps = eps, .weight_offset = answer.offset})));
    for (index k = 0; k < y.size(); ++k) ASSERT_EQ(y.get(k), answer.y) << k;
  };
  Reference reference;
  expect_with([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect_with(run); });
}

// 1 / sqrt(1 + 5/4) = 2/3, in f16 0.66650390625 (1365 / 2048) and in bf16 0.66796875 (171 / 256). Five times that is
// 3.33251953125 (f16: 3.33203125) or 3.33984375 (bf16: 3.34375, a tie to even). Without the cast 10/3 is 3.333984375 in
// f16 and 3.328125 in bf16. Gemma's form has no cast: 4 + 1 gives those.
TEST(rms_norm, the_normalised_row_is_cast_before_the_weights) {
  for (DType weight : {DType::f32, DType::f16}) expect({DType::f16, weight, 1, 5, 3.33203125}, 1.25f);
  for (DType weight : {DType::f32, DType::bf16}) expect({DType::bf16, weight, 1, 5, 3.34375}, 1.25f);
}

TEST(rms_norm, with_an_offset_nothing_is_cast) {
  for (DType weight : {DType::f32, DType::f16}) expect({DType::f16, weight, 1, 4, 3.333984375, 1}, 1.25f);
  for (DType weight : {DType::f32, DType::bf16}) expect({DType::bf16, weight, 1, 4, 3.328125, 1}, 1.25f);
}

// weight + offset is an f32 number, not one of the weight's type: 2^-13 + (1 + 2^-11) would be 1 + 2^-10 in f16. Two
// thirds of what it is are 1366.17 / 2048, of the other 1366.67 / 2048.
TEST(rms_norm, the_offset_is_added_in_f32) {
  expect({DType::f16, DType::f16, 1, 0x1p-13, 1366.0 / 2048, 1 + 0x1p-11}, 1.25f);
}

// The sum is rounded to residual's type, and the norm reads it rounded: 1 + 2^-8 is 1 in bf16 (a tie to even) and
// 3 + 3 * 2^-8 is 3.015625. Their norm in sums that are not rounded would be 1 : 3.
TEST(rms_norm, the_residual_is_rounded_before_the_norm_reads_it) {
  const auto expect_with = [&](auto&& run) {
    Tensor<2> x(DType::bf16, {1, 2}), residual(DType::bf16, {1, 2}), y(DType::bf16, {1, 2});
    Tensor<1> weight(DType::f32, {2});
    x.set(0, 1), x.set(1, 3), residual.set(0, 0x1p-8), residual.set(1, 3 * 0x1p-8);
    weight.set(0, 1), weight.set(1, 256), y.poison();
    ASSERT_TRUE(ok(run(RmsNorm<Host>{.x = x, .weight = weight, .residual = residual, .y = y, .eps = 0})));
    EXPECT_EQ(residual.get(0), 1);
    EXPECT_EQ(residual.get(1), 3.015625);
    // 1 / sqrt(5.0469970703125) = 0.445124..., 3.015625 times that is 1.342330...; 1 : 3 gives 0.447214, 1.341641.
    EXPECT_EQ(y.get(0), round_to(DType::bf16, 0.4451244));
    EXPECT_EQ(y.get(1), 256 * round_to(DType::bf16, 1.3423283));
  };
  Reference reference;
  expect_with([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect_with(run); });
}

TEST(rms_norm, zero_rows_stay_zero_and_int8_scale_is_zero) {
  Rng rng(31);
  for (DType out : {DType::f32, DType::i8}) {
    RmsNormCase start = rms_norm_case(DType::f32, DType::f32, out, 2, 1, 65, {}, rng);
    start.x.fill(0);
    on_every_backend([&](const std::string&, auto run) {
      RmsNormCase got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < got.y.size(); ++k) ASSERT_EQ(got.y.get(k), 0);
      if (out == DType::i8) {
        ASSERT_EQ(got.y_scale.get(0), 0);
        ASSERT_EQ(got.y_scale.get(1), 0);
      }
    });
  }
}

// What is not finite in a row, or in the weights, is NaN in the row: all of it, the scale of its codes too. Infinity
// must not be what divides the others to zero.
TEST(rms_norm, rows_that_are_not_finite) {
  Rng rng(32);
  for (DType type : float_types)
    for (DType out : {type, DType::i8})
      for (index dim : {1, 16, 33, 129})
        for (bool fused : {false, true})
          for (double bad : {infinity, -infinity, std::nan("")}) {
            SCOPED_TRACE(bad);
            RmsNormCase c = rms_norm_case(type, DType::f32, out, 3, 1, dim, layouts[2], rng);
            if (fused) c.add_residual(rng);
            (fused ? c.residual : c.x).set(dim + dim / 3, bad);  // row 1
            c.not_finite = true;
            ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
            Reference reference;
            ASSERT_TRUE(ok(run(reference, c.op())));
            for (index k = 0; k < 3 * dim; ++k) {
              const bool whole = k / dim != 1;
              if (out == DType::i8)
                ASSERT_TRUE(whole ? std::isfinite(c.y_scale.get(k / dim))
                                  : std::isnan(c.y_scale.get(1)) && c.y.get(k) == 0);
              else
                ASSERT_EQ(std::isfinite(c.y.get(k)), whole) << k;
            }
          }
}

// One head's norm is not another's, so neither is its infinity.
TEST(rms_norm, a_head_that_is_not_finite_leaves_the_others) {
  Rng rng(33);
  RmsNormCase c = rms_norm_case(DType::f16, DType::f16, DType::f16, 2, 3, 20, {}, rng);
  c.x.set(60 + 25, infinity);  // row 1, head 1
  c.not_finite = true;
  ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
  on_every_backend([&](const std::string&, auto run) {
    RmsNormCase got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index k = 0; k < 120; ++k) ASSERT_EQ(std::isnan(got.y.get(k)), k >= 80 && k < 100) << k;
  });
}

TEST(rms_norm, weights_that_are_not_finite) {
  Rng rng(34);
  for (double bad : {infinity, std::nan("")})
    for (DType out : {DType::f32, DType::i8})
      for (index dim : {1, 16, 33}) {
        SCOPED_TRACE(bad);
        RmsNormCase c = rms_norm_case(DType::f32, DType::f32, out, 2, 1, dim, {}, rng);
        c.x.set(dim / 2, 0);  // 0 * infinity is NaN
        c.weight.set(dim / 2, bad);
        c.not_finite = true;
        ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
        Reference reference;
        ASSERT_TRUE(ok(run(reference, c.op())));
        if (out == DType::i8) {
          for (index k = 0; k < 2 * dim; ++k) ASSERT_EQ(c.y.get(k), 0);
          ASSERT_TRUE(std::isnan(c.y_scale.get(0)) && std::isnan(c.y_scale.get(1)));
        }
      }
}

// Nothing divided by nothing: a row of zeros has no norm without eps.
TEST(rms_norm, zeros_without_eps_are_nan) {
  Rng rng(35);
  for (DType out : {DType::f32, DType::i8}) {
    RmsNormCase c = rms_norm_case(DType::f32, DType::f32, out, 2, 1, 33, {}, rng);
    c.x.fill(0);
    c.eps = 0;
    c.not_finite = true;
    ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
    Reference reference;
    ASSERT_TRUE(ok(run(reference, c.op())));
    EXPECT_TRUE(std::isnan(out == DType::i8 ? c.y_scale.get(0) : c.y.get(0)));
  }
}

}  // namespace
}  // namespace inlay::test
