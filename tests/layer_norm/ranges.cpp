// Rows whose sums or squares leave f32, rows of a large mean, and rows without a finite answer.
#include "tests/layer_norm/case.hpp"

namespace inlay::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr DType wide_types[] = {DType::f32, DType::bf16};

// Row 1 is `magnitude` times what it was; those beside it are as ever.
void scale_row(LayerNormCase& c, double magnitude) {
  const index dim = c.x.extents()[1];
  for (index k = dim; k < 2 * dim; ++k) {
    c.x.set(k, magnitude * c.x.get(k));
    if (c.residual.present()) c.residual.set(k, magnitude / 2 * c.residual.get(k));
  }
}

void compare_rows_of(double magnitude, const std::vector<float>& epsilons) {
  Rng rng(41);
  for (DType type : wide_types)
    for (index dim : {2, 16, 67, 16385})
      for (float eps : epsilons) {
        if (dim > 10000 && eps != 0 && eps != 1e-5f) continue;  // long: once for each way of the NPU
        if (dim > 10000 && magnitude < 1e-40) continue;         // of few bits: no random walk
        SCOPED_TRACE(magnitude);
        LayerNormCase c = layer_norm_case(type, DType::f32, Parts::both, 3, dim, layouts[2], rng);
        c.x.set(dim + dim / 2, 0.75);  // a row has an element that does not vanish
        if (dim % 2) add_residual(c, rng);
        scale_row(c, type == DType::bf16 ? std::max(magnitude, 1e-38) : magnitude);
        c.eps = eps;
        ASSERT_NO_FATAL_FAILURE(compare_layer_norm(c));
      }
}

TEST(layer_norm, squares_beyond_f32) {
  for (double magnitude : {2e17, 2e19, 1e30, 2e38}) compare_rows_of(magnitude, {0, 1e-5f, 1e30f, 3e38f});
}

// Without eps, with one of the same size, and with one at the border of the two ways.
TEST(layer_norm, squares_below_f32) {
  for (double magnitude : {1e-14, 1e-16, 1e-21, 1e-25, 1e-37, 1e-42})
    compare_rows_of(magnitude, {0, 1e-43f, static_cast<float>(magnitude * magnitude), 7.8e-31f, 7.9e-31f});
}

// Their sum is beyond f32, and so is the difference of their ends.
TEST(layer_norm, numbers_at_both_ends_of_f32) {
  Rng rng(42);
  for (float eps : {0.0f, 1e-5f})
    for (index dim : {3, 64, 4097}) {
      LayerNormCase c = layer_norm_case(DType::f32, DType::f32, Parts::both, 4, dim, {}, rng);
      for (index k = 0; k < 2 * dim; ++k) c.x.set(k, (k < dim ? 3.2e38 : -3.2e38) * (1 + c.x.get(k) / 32));
      c.x.set(1, -3.3e38), c.x.set(dim + 2, 3.3e38);
      for (index k = 2 * dim; k < 3 * dim; ++k) c.x.set(k, 3e38 * (1 + c.x.get(k) / 16));
      c.eps = eps;
      ASSERT_NO_FATAL_FAILURE(compare_layer_norm(c));
    }
}

// A sum of such rows is off by more than their numbers differ: what is left of them without their mean decides. From
// 2^20 on they have a few bits to differ in, and the mean's own error is as large as the differences.
TEST(layer_norm, rows_of_a_large_mean) {
  Rng rng(43);
  for (double mean : {0x1p10, -0x1p16, 0x1p20, 0x1p23, 0x1p60, -0x1p100, 0x1p126, 0x1p-60})
    for (index dim : {7, 64, 1000, 4096})
      for (float eps : {0.0f, 1e-5f}) {
        SCOPED_TRACE(mean);
        LayerNormCase c = layer_norm_case(DType::f32, DType::f32, Parts::both, 3, dim, {}, rng);
        const double spread = std::abs(mean) > 0x1p23 || std::abs(mean) < 1 ? std::abs(mean) * 0x1p-18 : 1;
        for (index k = 0; k < c.x.size(); ++k) c.x.set(k, mean + spread * c.x.get(k));
        c.x.set(0, mean + spread), c.x.set(dim, mean + spread), c.x.set(2 * dim, mean + spread);
        c.x.set(1, mean - spread), c.x.set(dim + 1, mean - spread), c.x.set(2 * dim + 1, mean - spread);
        c.eps = eps;
        ASSERT_NO_FATAL_FAILURE(compare_layer_norm(c, 4));
      }
}

// The mean is theirs to the bit, whatever it is: without eps they have no answer.
TEST(layer_norm, rows_of_equal_numbers) {
  Rng rng(44);
  for (DType type : float_types)
    for (double value : {0.0, 1.0 / 3, -1e4, 7e-5})
      for (index dim : {1, 3, 64, 1000, 4097})
        for (float eps : {0.0f, 1e-5f}) {
          SCOPED_TRACE(value);
          LayerNormCase start = layer_norm_case(type, type, Parts::both, 2, dim, {}, rng);
          start.x.fill(value);
          start.eps = eps;
          const auto expect = [&](auto&& run) {
            LayerNormCase got = start;
            ASSERT_TRUE(ok(run(got.op())));
            for (index k = 0; k < 2 * dim; ++k)
              if (eps > 0)
                ASSERT_EQ(got.y.get(k), start.bias.get(k % dim)) << k;
              else
                ASSERT_TRUE(std::isnan(got.y.get(k))) << k;
          };
          Reference reference;
          expect([&](const auto& op) { return run(reference, op); });
          on_every_backend([&](const std::string&, auto run) { expect(run); });
        }
}

// NaN and infinity are NaN in all of their row, and nowhere else. Infinity must not be what divides the others to zero.
TEST(layer_norm, rows_that_are_not_finite) {
  Rng rng(45);
  for (DType type : float_types)
    for (index dim : {1, 16, 33, 129})
      for (bool fused : {false, true})
        for (double bad : {infinity, -infinity, std::nan("")})
          for (float eps : {1e-5f, 0x1p-120f}) {
            SCOPED_TRACE(bad);
            LayerNormCase c = layer_norm_case(type, DType::f32, Parts::both, 3, dim, layouts[2], rng);
            if (fused) add_residual(c, rng);
            (fused ? c.residual : c.x).set(dim + dim / 3, bad);  // row 1
            c.eps = eps;
            c.not_finite = true;
            ASSERT_NO_FATAL_FAILURE(compare_layer_norm(c));
            on_every_backend([&](const std::string&, auto run) {
              LayerNormCase got = c;
              ASSERT_TRUE(ok(run(got.op())));
              for (index k = 0; k < 3 * dim; ++k) ASSERT_EQ(std::isnan(got.y.get(k)), k / dim == 1) << k;
            });
          }
}

// The sum is rounded to residual's type, and the norm reads it rounded: 1 + 2^-8 is 1 in bf16 (a tie to even).
TEST(layer_norm, the_residual_is_rounded_before_the_norm_reads_it) {
  const auto expect = [&](auto&& run) {
    Tensor<2> x(DType::bf16, {1, 4}), residual(DType::bf16, {1, 4}), y(DType::bf16, {1, 4});
    x.set(0, 1), x.set(1, 1), x.set(2, 1), x.set(3, 1);
    residual.fill(0), residual.set(0, 0x1p-8), residual.set(3, 0x1p-6);
    y.poison();
    ASSERT_TRUE(ok(run(LayerNorm<Host>{.x = x, .residual = residual, .y = y, .eps = 0})));
    EXPECT_EQ(residual.get(0), 1);
    EXPECT_EQ(residual.get(3), 1 + 0x1p-6);
    // Three equal numbers and one beside them: -1 / sqrt 3 and sqrt 3.
    EXPECT_EQ(y.get(0), y.get(1));
    EXPECT_EQ(y.get(0), round_to(DType::bf16, -1 / std::sqrt(3)));
    EXPECT_EQ(y.get(3), round_to(DType::bf16, std::sqrt(3)));
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

}  // namespace
}  // namespace inlay::test
