// A case of layer_norm and what its contract demands of every result.
#pragma once

#include <inlay/ops/layer_norm.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

// Everything that one case needs, so that backends start from the same bytes.
struct LayerNormCase {
  Tensor<2> x, residual = {}, y;
  Tensor<1> weight = {}, bias = {};
  float eps = 1e-5f;
  bool in_place = false;
  bool not_finite = false;  // some rows have no finite answer

  LayerNorm<Host> op() {
    View<2> to = result();
    return {.x = x, .weight = weight, .bias = bias, .residual = residual, .y = to, .eps = eps};
  }
  Tensor<2>& result() { return in_place ? x : y; }

  // x + residual, rounded to their type: what the norm reads.
  Tensor<2> total() const {
    Tensor<2> sum(x.dtype(), x.extents());
    for (index k = 0; k < x.size(); ++k) sum.set(k, x.get(k) + (residual.present() ? residual.get(k) : 0));
    return sum;
  }
  LayerNormCase unrounded() const {
    return {.x = total().widened(),
            .y = Tensor<2>(DType::f32, y.extents()).poison(),
            .weight = weight.widened(),
            .bias = bias.widened(),
            .eps = eps};
  }
};

enum class Parts { none, weight, bias, both };

// Rows of x, residual and y lie differently: their strides are not the same.
inline LayerNormCase layer_norm_case(DType type, DType weight, Parts parts, index rows, index dim, Layout layout,
                                     Rng& rng) {
  LayerNormCase c{.x = {type, {rows, dim}, {.row_gap = layout.row_gap + 2, .misaligned = layout.misaligned}},
                  .y = {type, {rows, dim}, layout}};
  c.x.uniform(rng);
  if (parts == Parts::weight || parts == Parts::both) c.weight = Tensor<1>(weight, {dim}).uniform(rng, 0.5, 1.5);
  if (parts == Parts::bias || parts == Parts::both) c.bias = Tensor<1>(weight, {dim}).uniform(rng);
  c.y.poison();
  return c;
}
inline void add_residual(LayerNormCase& c, Rng& rng) {
  c.residual = Tensor<2>(c.x.dtype(), c.x.extents(), {.row_gap = 1, .misaligned = 2}).uniform(rng);
}

// Errors in eps of f32, of an element z = (r - m) / sqrt(v + eps) before weight and bias.
//
// Relative to z: both differences, the division of the NPU, the product, the weight's and the bias's, 6; the variance,
// whose squares are off by twice what the differences are, with its sum, quotient and eps, and the root and the
// quotient, 5, and half of what a sum is off by. Relative to 1, which is the root of the mean square of all z (or more,
// with eps): the mean that is taken of the differences, by what a sum is off by and its quotient, 1. A sum of dim
// numbers in four chains or more: of f32 numbers each chain's roundings are a random walk, sqrt(dim / 4) * 0.4 eps of
// what it has reached at most times 2; of 16-bit numbers they have a side, dim / 16 (rms_norm_case.hpp).
inline double layer_norm_sum_ulps(const LayerNormCase& c) {
  const auto dim = static_cast<double>(c.x.extents()[1]);
  return c.x.dtype() == DType::f32 ? std::sqrt(dim) / 2 : dim / 16;
}

// What each element may be off by; `plain` is the case's norm without weight and bias, computed. `slack`: how much less
// the first difference leaves than the mean's own error (ranges.cpp).
inline auto layer_norm_scale(const LayerNormCase& start, const LayerNormCase& plain, double slack = 1) {
  const double sum = layer_norm_sum_ulps(start);
  const index dim = start.x.extents()[1];
  return [&start, &plain, sum, dim, slack](index k) {
    const double weight = start.weight.present() ? std::abs(start.weight.get(k % dim)) : 1;
    const double bias = start.bias.present() ? std::abs(start.bias.get(k % dim)) : 0;
    return weight * ((11 + sum / 2) * std::abs(plain.y.get(k)) + slack * (sum + 1)) + bias;
  };
}

// The reference, unrounded, against every backend.
inline void compare_layer_norm(const LayerNormCase& start, double slack = 1, double lost = 0) {
  LayerNormCase exact = start.unrounded(), plain = start.unrounded();
  plain.weight = plain.bias = {};
  LayerNormCase named = start;
  SCOPED_TRACE(describe(named.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, exact.op())));
  ASSERT_TRUE(ok(run(reference, plain.op())));
  const auto expect = [&](auto&& run) {
    LayerNormCase got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_close(got.result(), exact.y, 1, layer_norm_scale(start, plain, slack),
                 {.lost = lost, .nan = start.not_finite});
    if (start.residual.present()) expect_equal(got.residual, start.total(), {.nan = start.not_finite});
    EXPECT_TRUE(got.x.gaps_untouched() && got.y.gaps_untouched() && got.residual.gaps_untouched());
  };
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

INLAY_RUNS_OF(LayerNorm, extern);

}  // namespace inlay::test
