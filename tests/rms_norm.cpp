#include <inlay/ops/rms_norm.hpp>

#include <Eigen/Core>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<2> x, residual = {}, y;
  Tensor<1> weight, y_scale = {};
  index heads = 1;
  float eps = 1e-5f, weight_offset = 0;

  RmsNorm<Host> op() {
    return {.x = x,
            .weight = weight,
            .residual = residual,
            .y = y,
            .y_scale = y_scale,
            .heads = heads,
            .eps = eps,
            .weight_offset = weight_offset};
  }
  void add_residual(Rng& rng) { residual = Tensor<2>(x).uniform(rng); }
};

Case make(DType type, DType weight, DType out, index rows, index heads, index dim, Layout layout, Rng& rng) {
  Case c{.x = {type, {rows, heads * dim}, layout},
         .y = {out, {rows, heads * dim}, layout},
         .weight = {weight, {dim}},
         .heads = heads};
  c.x.uniform(rng);
  c.weight.uniform(rng, 0.5, 1.5);
  c.y.poison();
  if (out == DType::i8) c.y_scale = Tensor<1>(DType::f32, {rows}).poison();
  return c;
}

// Each output is a product of roundings after a sum of dim squares: the sum's relative error is at
// most dim/4 (four chains and lanes only help) halved by the root, and 4 roundings follow. Where the normalised row is
// cast to x's type before the product with weight, an error of f32 may send it to either of two neighbours: 2 eps of
// that type, besides those of the output that expect_close adds.
double ulps(const Case& c) {
  const bool casts = c.weight_offset == 0 && c.y.dtype() != DType::i8 && c.x.dtype() != DType::f32;
  const double cast = casts ? 2 * epsilon(c.x.dtype()) / epsilon(DType::f32) : 0;
  return static_cast<double>(c.weight.size()) / 2 + 8 + cast;
}

void compare(const Case& start) {
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    if (got.y.dtype() == DType::i8) {
      expect_close(got.y_scale, expected.y_scale, ulps(start));
      // A quotient that lies between two integers to within the scale's error may go either way.
      for (index k = 0; k < got.y.size(); ++k) ASSERT_LE(std::abs(got.y.get(k) - expected.y.get(k)), 1) << k;
    } else {
      expect_close(got.y, expected.y, ulps(start));
    }
    expect_equal(got.residual, expected.residual);
    EXPECT_TRUE(got.y.gaps_untouched());
    EXPECT_TRUE(got.residual.gaps_untouched());
  });
}

TEST(rms_norm, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType weight : {DType::f32, type})
      for (index dim : sizes)
        for (index rows : row_counts)
          for (const Layout& layout : layouts) {
            Case c = make(type, weight, type, rows, 1, dim, layout, rng);
            if ((rows + dim) % 2) c.add_residual(rng);
            c.weight_offset = dim % 3 == 0 ? 1.0f : 0.0f;
            ASSERT_NO_FATAL_FAILURE(compare(c));
          }
}

TEST(rms_norm, int8_output) {
  Rng rng(2);
  for (DType type : float_types)
    for (index dim : sizes) {
      Case c = make(type, DType::f32, DType::i8, 3, 1, dim, {}, rng);
      if (dim % 2) c.add_residual(rng);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(rms_norm, per_head) {
  Rng rng(3);
  for (index heads : {2, 3, 7})
    for (index dim : {1, 59, 64, 128})
      ASSERT_NO_FATAL_FAILURE(compare(make(DType::f32, DType::f32, DType::f32, 3, heads, dim, layouts[2], rng)));
}

TEST(rms_norm, in_place) {
  Rng rng(4);
  for (DType type : float_types) {
    const Case start = make(type, DType::f32, type, 5, 1, 111, {}, rng);
    Case apart = start;
    Reference reference;
    ASSERT_TRUE(ok(run(reference, apart.op())));
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      RmsNorm<Host> op = got.op();
      op.y = got.x;
      ASSERT_TRUE(ok(run(op)));
      expect_close(got.x, apart.y, ulps(start));
    });
  }
}

TEST(rms_norm, reference_agrees_with_eigen) {
  Rng rng(5);
  Case c = make(DType::f32, DType::f32, DType::f32, 4, 1, 257, {}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd x = Eigen::Map<Matrix>(c.x.data<float>(), 4, 257).cast<double>();
  const Eigen::VectorXd w = Eigen::Map<Eigen::VectorXf>(c.weight.data<float>(), 257).cast<double>();
  for (int t = 0; t < 4; ++t) {
    const Eigen::VectorXd expected =
        x.row(t).transpose().array() / std::sqrt(x.row(t).squaredNorm() / 257 + 1e-5f) * w.array();
    for (int i = 0; i < 257; ++i) EXPECT_NEAR(c.y.get(t * 257 + i), expected(i), 1e-6 * std::abs(expected(i)));
  }
}

TEST(rms_norm, zero_rows_stay_zero_and_int8_scale_is_zero) {
  Rng rng(6);
  for (DType out : {DType::f32, DType::i8}) {
    Case start = make(DType::f32, DType::f32, out, 2, 1, 65, {}, rng);
    start.x.fill(0);
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < got.y.size(); ++k) ASSERT_EQ(got.y.get(k), 0);
      if (out == DType::i8) {
        ASSERT_EQ(got.y_scale.get(0), 0);
      }
    });
  }
}

// What is not finite in a row, or in the weights, or has squares beyond f32, is NaN in the row: all of it, the scale
// of its codes too. Infinity must not be what divides the others to zero.
TEST(rms_norm, rows_that_are_not_finite) {
  Rng rng(7);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (DType type : float_types)
    for (DType out : {type, DType::i8})
      for (index dim : {1, 16, 33, 129})
        for (bool fused : {false, true})
          for (double bad : {infinity, -infinity, std::nan(""), type == DType::f16 ? infinity : 3e30}) {
            SCOPED_TRACE(bad);
            Case c = make(type, DType::f32, out, 3, 1, dim, layouts[2], rng);
            if (fused) c.add_residual(rng);
            (fused ? c.residual : c.x).set(dim + dim / 3, bad);  // row 1
            ASSERT_NO_FATAL_FAILURE(compare(c));
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

TEST(rms_norm, weights_that_are_not_finite) {
  Rng rng(9);
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")})
    for (DType out : {DType::f32, DType::i8})
      for (index dim : {1, 16, 33}) {
        SCOPED_TRACE(bad);
        Case c = make(DType::f32, DType::f32, out, 2, 1, dim, {}, rng);
        c.x.set(dim / 2, 0);  // 0 * infinity is NaN
        c.weight.set(dim / 2, bad);
        ASSERT_NO_FATAL_FAILURE(compare(c));
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
  Rng rng(11);
  for (DType out : {DType::f32, DType::i8}) {
    Case c = make(DType::f32, DType::f32, out, 2, 1, 33, {}, rng);
    c.x.fill(0);
    c.eps = 0;
    ASSERT_NO_FATAL_FAILURE(compare(c));
    Reference reference;
    ASSERT_TRUE(ok(run(reference, c.op())));
    EXPECT_TRUE(std::isnan(out == DType::i8 ? c.y_scale.get(0) : c.y.get(0)));
  }
}

// A largest element whose step is subnormal: 1 / step is beyond f32, and the codes still follow the row.
TEST(rms_norm, int8_rows_of_small_numbers) {
  Rng rng(12);
  for (double largest : {0x1p-118, 0x1p-120, 0x1p-126, 0x1p-140, 0x1p-149}) {
    SCOPED_TRACE(largest);
    Case c = make(DType::f32, DType::f32, DType::i8, 3, 1, 65, {}, rng);
    c.x.uniform(rng, -largest, largest);
    c.x.set(7, largest);
    c.eps = 1;  // no row is divided by less
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(rms_norm, subnormals) {
  Rng rng(10);
  for (DType type : float_types)
    for (bool mixed : {false, true})
      for (index dim : subnormal_sizes) {
        SCOPED_TRACE(mixed ? "mixed with others" : "alone");
        Case c = make(type, DType::f32, type, 2, 1, dim, {}, rng);
        subnormals(c.x, rng, mixed);
        c.eps = 1;  // no row is divided by less
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          // An operand and a quotient times a weight of at most 1.5, and the product.
          expect_close(
              got.y, expected.y, ulps(c), [&](index k) { return std::abs(expected.y.get(k)); }, 4 * lost);
        });
      }
}

TEST(rms_norm, refuses_what_the_contract_does_not_cover) {
  Rng rng(8);
  Case c = make(DType::f32, DType::f32, DType::f32, 2, 1, 8, {}, rng);
  RmsNorm<Host> op = c.op();
  Tensor<1> seven(DType::f32, {7});
  op.weight = seven;
  expect_refused(op, {"weight", "7", "8"});
  op = c.op();
  op.eps = -1;
  expect_refused(op, {"eps", "-1"});
  op = c.op();
  op.x.dtype = DType::i32;
  expect_refused(op, {"x", "i32", "f32"});
  op = c.op();
  op.heads = 3;
  expect_refused(op, {"heads"});
  op = c.op();
  op.y.data = c.x.data<float>() + 1;
  expect_refused(op, {"y", "overlaps", "x"});
  op = c.op();
  op.x.strides[1] = 2;
  expect_refused(op, {"x", "innermost stride 2", "1"});
  op = c.op();
  op.y.data = nullptr;
  expect_refused(op, {"y", "null"});
}

}  // namespace
}  // namespace inlay::test
