// A case of rms_norm and what its contract demands of every result, with the rounding points where the contract has
// them.
#pragma once

#include <inlay/ops/rms_norm.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

// Everything that one case needs, so that backends start from the same bytes.
struct RmsNormCase {
  Tensor<2> x, residual = {}, y;
  Tensor<1> weight, y_scale = {};
  index heads = 1;
  float eps = 1e-5f, weight_offset = 0;
  bool not_finite = false;  // some rows have no finite answer

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
  // Rows of x, residual and y lie differently: their strides are not the same.
  void add_residual(Rng& rng) {
    residual = Tensor<2>(x.dtype(), x.extents(), {.row_gap = 1, .misaligned = 2}).uniform(rng);
  }
  bool int8() const { return y.dtype() == DType::i8; }
  // Is the normalised row rounded to 16 bits before it is multiplied with the weights?
  bool casts() const { return weight_offset == 0 && !int8() && x.dtype() != DType::f32; }

  // x + residual, rounded to their type: what the norm reads.
  Tensor<2> total() const {
    Tensor<2> sum(x.dtype(), x.extents());
    for (index k = 0; k < x.size(); ++k) sum.set(k, x.get(k) + (residual.present() ? residual.get(k) : 0));
    return sum;
  }
  // The row times its weights, rounded nowhere on the way.
  RmsNormCase unrounded() const {
    return {.x = total().widened(),
            .y = Tensor<2>(DType::f32, y.extents()).poison(),
            .weight = weight.widened(),
            .heads = heads,
            .eps = eps,
            .weight_offset = weight_offset};
  }
  RmsNormCase without_weights() const {
    RmsNormCase plain = unrounded();
    plain.weight = Tensor<1>(DType::f32, weight.extents()).fill(1);
    return plain;
  }
};

inline RmsNormCase rms_norm_case(DType type, DType weight, DType out, index rows, index heads, index dim, Layout layout,
                                 Rng& rng) {
  RmsNormCase c{.x = {type, {rows, heads * dim}, {.row_gap = layout.row_gap + 2, .misaligned = layout.misaligned}},
                .y = {out, {rows, heads * dim}, layout},
                .weight = {weight, {dim}},
                .heads = heads};
  c.x.uniform(rng);
  c.weight.uniform(rng, 0.5, 1.5);
  c.y.poison();
  if (out == DType::i8) c.y_scale = Tensor<1>(DType::f32, {rows}).poison();
  return c;
}

// Of the row before y is rounded, in eps of f32. dim squares are added in four chains or more. Of f32 numbers that is a
// random walk of dim / 4 roundings a chain, each of about 0.4 eps of what the chain has reached: within 4 * 0.06
// sqrt(dim) eps of their sum, which the root halves. Squares of 16-bit numbers leave the same remainders again and
// again (k^2 mod 8 is 0, 1 or 4), so their roundings have a side, and only what is proven holds: each is at most eps of
// what its chain has reached, on average an eighth of the sum. Mean and eps, one rounding each, are halved too; root,
// quotient and two products, and the sum of weight and offset, are 5 more.
inline double rms_norm_ulps(const RmsNormCase& c) {
  const auto dim = static_cast<double>(c.weight.size());
  return 6 + (c.x.dtype() == DType::f32 ? std::sqrt(dim) / 8 : dim / 16);
}

// Holds one result, of a backend or the reference, against the contract: `exact` is unrounded() and `plain`
// without_weights(), both computed. `lost` is what flushing may take (subnormals.hpp).
inline void expect_rms_norm(const RmsNormCase& start, const RmsNormCase& exact, const RmsNormCase& plain,
                            const RmsNormCase& got, double lost = 0) {
  const double ulps = rms_norm_ulps(start), error = ulps * epsilon(DType::f32);
  const DType type = start.x.dtype();
  const index dim = start.weight.size(), row = start.heads * dim;
  if (start.int8()) {
    Tensor<1> step(DType::f32, start.y_scale.extents());
    for (index t = 0; t < step.size(); ++t) {
      double largest = 0;
      bool finite = true;
      for (index i = 0; i < row; ++i) {
        largest = std::max(largest, std::abs(exact.y.get(t * row + i)));
        finite = finite && std::isfinite(exact.y.get(t * row + i));
      }
      step.set(t, finite ? largest / 127 : std::nan(""));
    }
    expect_close(got.y_scale, step, ulps + 1, {.lost = lost, .nan = start.not_finite});
    for (index k = 0; k < got.y.size(); ++k) {
      const double scale = got.y_scale.get(k / row), quotient = scale > 0 ? exact.y.get(k) / scale : 0;
      const double code = std::clamp(quotient, -128.0, 127.0);  // a scale that is subnormal is off by half of itself
      ASSERT_LE(std::abs(got.y.get(k) - code), 0.5 + 2 * error * std::abs(code)) << "element " << k;
    }
  } else if (start.casts()) {
    // An error of f32 may send a normalised element to either of two neighbours of its type, seldom: the product of
    // one of them with the weight, rounded to f32 and to y, is then the only right answer. Which of them it was is seen
    // after the rounding: below a power of two it is half as wide as above.
    Tensor<2> products(DType::f32, start.y.extents());
    for (index k = 0; k < products.size(); ++k) {
      const double normalised = plain.y.get(k), off = error * std::abs(normalised), weight = start.weight.get(k % dim);
      const double low = round_to(type, normalised - off) * weight, high = round_to(type, normalised + off) * weight;
      const auto off_by = [&](double product) { return std::abs(got.y.get(k) - round_to(type, product)); };
      products.set(k, off_by(low) < off_by(high) ? low : high);
    }
    expect_close(got.y, products, 0, {.lost = 4 * lost, .nan = start.not_finite});
  } else {
    // An operand and a quotient times a weight of at most 1.5, and the product.
    expect_close(got.y, exact.y, ulps, {.lost = 4 * lost, .nan = start.not_finite});
  }
  if (start.residual.present()) {
    expect_close(got.residual, start.unrounded().x, 0, {.lost = 3 * lost, .nan = start.not_finite});
    if (lost == 0) {
      expect_equal(got.residual, start.total(), {.nan = start.not_finite});
    }
  }
  EXPECT_TRUE(got.y.gaps_untouched());
  EXPECT_TRUE(got.residual.gaps_untouched());
  EXPECT_TRUE(got.y_scale.gaps_untouched());
}

// The reference, with its own rounding points, and every backend.
inline void compare_rms_norm(const RmsNormCase& start) {
  RmsNormCase exact = start.unrounded(), plain = start.without_weights(), rounded = start;
  SCOPED_TRACE(describe(rounded.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, exact.op())));
  ASSERT_TRUE(ok(run(reference, plain.op())));
  ASSERT_TRUE(ok(run(reference, rounded.op())));
  ASSERT_NO_FATAL_FAILURE(expect_rms_norm(start, exact, plain, rounded));
  on_every_backend([&](const std::string&, auto run) {
    RmsNormCase got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_rms_norm(start, exact, plain, got);
  });
}

INLAY_RUNS_OF(RmsNorm, extern);

}  // namespace inlay::test
