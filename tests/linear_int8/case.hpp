// One case of linear_int8: everything that it needs, so that backends start from the same bytes.
#pragma once

#include <inlay/weights/linear_int8_pack.hpp>

#include <cmath>
#include <optional>

#include "cpu_kernels/linear/cuts.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

struct Case {
  Tensor<2> x, w, y;
  Tensor<3> weight;
  Tensor<1> weight_sum;
  Tensor<1> x_scale = {}, x_zero = {}, weight_scale = {}, weight_zero = {}, bias = {}, y_scale = {}, y_zero = {};
  bool asymmetric = false, shadow_outliers = false;

  LinearInt8<Host> op() {
    return {.x = x,
            .x_scale = x_scale,
            .x_zero = x_zero,
            .weight = weight,
            .weight_sum = weight_sum,
            .weight_scale = weight_scale,
            .weight_zero = weight_zero,
            .bias = bias,
            .y = y,
            .y_scale = y_scale,
            .y_zero = y_zero,
            .asymmetric = asymmetric,
            .shadow_outliers = shadow_outliers};
  }
  Case unrounded() const {
    Case wide = *this;
    wide.y = y.widened();
    return wide;
  }
  bool integral() const { return !floats.contains(y.dtype()); }
  Case& pack() {
    EXPECT_TRUE(ok(pack_linear_int8(w, weight, weight_sum)));
    return *this;
  }
};

inline int least(DType type) { return type == DType::u8 ? 0 : -128; }
inline int most(DType type) { return type == DType::u8 ? 255 : 127; }

template <int Rank> Tensor<Rank>& fill_integers(Tensor<Rank>& tensor, Rng& rng) {
  return tensor.integers(rng, least(tensor.dtype()), most(tensor.dtype()));
}
inline Tensor<1> ones_about(index count, double about, Rng& rng) {
  return Tensor<1>(DType::f32, {count}).uniform(rng, 0.5 * about, 1.5 * about);
}
inline Tensor<1> zero_points(DType type, index count, Rng& rng) {
  Tensor<1> zeros(type, {count});
  return fill_integers(zeros, rng);
}

inline Case make(DType x, DType y, index tokens, index n, index k, Layout layout, Rng& rng) {
  Case c{.x = {x, {tokens, k}, layout},
         .w = {DType::i8, {n, k}, layout},
         .y = {y, {tokens, n}, layout},
         .weight = {DType::i8, linear_int8::packed_extents(n, k)},
         .weight_sum = {DType::i32, {n}}};
  if (floats.contains(x))
    c.x.uniform(rng, -1, 1);
  else
    fill_integers(c.x, rng);
  fill_integers(c.w, rng);
  c.pack();
  c.y.poison();
  return c;
}

// Integers have no NaN that would show what nobody wrote: `run` goes twice, over outputs with different contents.
template <class Run> void run_over_two_poisons(Case& c, Run&& run) {
  if (!c.integral()) {
    ASSERT_TRUE(ok(run(c.op())));
    return;
  }
  Case other = c;
  c.y.fill(85);
  other.y.fill(42);
  ASSERT_TRUE(ok(run(c.op())));
  ASSERT_TRUE(ok(run(other.op())));
  expect_equal(c.y, other.y);
}

// judge(got, expected) on every backend; the reference's result is `expected`, on outputs of its own type. No product
// is fused: levels, threads and batches of the CPU agree to the bit.
template <class Judge> void on_all(const Case& start, Case expected, Judge&& judge) {
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_NO_FATAL_FAILURE(run_over_two_poisons(expected, [&](const auto& op) { return run(reference, op); }));
  std::optional<Tensor<2>> first;
  on_every_backend([&](const std::string& label, auto run) {
    Case got = start;
    ASSERT_NO_FATAL_FAILURE(run_over_two_poisons(got, run));
    EXPECT_TRUE(got.y.gaps_untouched());
    ASSERT_NO_FATAL_FAILURE(judge(got, expected));
    if (!label.starts_with("cpu")) return;
    if (!first) first = got.y;
    expect_equal(got.y, *first);
  });
}

// Of cases whose every step is exact in f32, up to the last rounding.
inline void compare_exactly(const Case& start) {
  on_all(start, start, [](const Case& got, const Case& expected) { expect_equal(got.y, expected.y); });
}

// The sums are exact. What follows rounds the sum to f32, its sum with the shadow, the product of the scales and the
// product with it, each no larger than y without its bias; then y, and the reference rounds it too. Integers come from a
// quotient that lies between two of them now and then.
inline void compare(const Case& start, RoundedIntegers& integers) {
  if (start.y.dtype() == DType::i32) return compare_exactly(start);
  on_all(start, start.unrounded(), [&](const Case& got, const Case& expected) {
    if (got.integral()) return integers.expect(got.y, expected.y);
    const index n = got.y.extents()[1];
    const double steps = got.shadow_outliers ? 4 : 3;
    expect_close(got.y, expected.y, 1, [&](index i) {
      const double bias = got.bias.present() ? got.bias.get(i % n) : 0;
      return steps * std::abs(expected.y.get(i) - bias) + 2 * std::abs(expected.y.get(i));
    });
  });
}

INLAY_RUNS_OF(LinearInt8, extern);

}  // namespace inlay::test
