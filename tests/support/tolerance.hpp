// Tolerances belong to operators, in units of a type's epsilon, and follow from the arithmetic.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "measure/rounding.hpp"
#include "tests/support/tensor.hpp"
#include "tests/support/tolerance_report.hpp"

namespace inlay::test {

using measure::epsilon, measure::half_ulp, measure::underflow;

// What a comparison allows beside its bound.
struct Allow {
  double lost = 0;              // what flushing subnormals may take (subnormals.hpp)
  bool nan = false;             // the case has elements whose right answer is NaN
  std::string_view loose = {};  // proves why no error comes near to the bound (tolerance_report.hpp)
};

namespace detail {

template <int Rank> void expect_no_undeclared_nan(const Tensor<Rank>& expected, bool allowed) {
  for (index k = 0; k < expected.size() && !allowed; ++k)
    ASSERT_FALSE(std::isnan(expected.get(k)))
        << "element " << k << ": the reference left it as it was, or its answer is NaN, which the case does not say";
}

}  // namespace detail

// |got - expected| <= f32_ulps * eps(f32) * scale + one rounding to got's type, where scale(k) bounds the magnitudes
// that were added up for element k. `expected` is f32, so not rounded to a shorter type: a result that is cut off
// instead of rounded misses by up to twice as much as this allows.
template <int Rank, class Scale>
void expect_close(const Tensor<Rank>& got, const Tensor<Rank>& expected, double f32_ulps, Scale&& scale,
                  const Allow& allow = {}, const Where& where = Where::current()) {
  ASSERT_EQ(got.extents(), expected.extents());
  ASSERT_EQ(expected.dtype(), DType::f32) << "what is expected must not be rounded to a shorter type";
  ASSERT_NO_FATAL_FAILURE(detail::expect_no_undeclared_nan(expected, allow.nan));
  double worst = 0;
  for (index k = 0; k < got.size(); ++k) {
    const double g = got.get(k), e = expected.get(k);
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    const double error = f32_ulps * epsilon(DType::f32) * scale(k) + 2 * underflow(DType::f32) + allow.lost;
    if (std::isinf(g) && (g == round_to(got.dtype(), e - error) || g == round_to(got.dtype(), e + error))) continue;
    const double bound = error + (got.dtype() == DType::f32 ? 0 : half_ulp(got.dtype(), std::abs(e) + error));
    ASSERT_LE(std::abs(g - e), bound) << "element " << k << ": got " << g << ", expected " << e;
    worst = std::max(worst, std::abs(g - e) / bound);
  }
  if (got.size() > 0 && f32_ulps + allow.lost > 0) tolerance_report->saw(worst, got.dtype(), allow.loose, where);
}

// Relative to the expected value itself.
template <int Rank>
void expect_close(const Tensor<Rank>& got, const Tensor<Rank>& expected, double f32_ulps, const Allow& allow = {},
                  const Where& where = Where::current()) {
  expect_close(
      got, expected, f32_ulps, [&](index k) { return std::abs(expected.get(k)); }, allow, where);
}

// Integers and copies: no tolerance at all.
template <int Rank> void expect_equal(const Tensor<Rank>& got, const Tensor<Rank>& expected, const Allow& allow = {}) {
  ASSERT_EQ(got.extents(), expected.extents());
  ASSERT_NO_FATAL_FAILURE(detail::expect_no_undeclared_nan(expected, allow.nan));
  for (index k = 0; k < got.size(); ++k)
    if (!(std::isnan(got.get(k)) && std::isnan(expected.get(k)))) {
      ASSERT_EQ(got.get(k), expected.get(k)) << "element " << k;
    }
}

// Integers that were rounded from a real number: where the number lies between two of them to within its error, either
// may come out. Those are few, and as often one too many as one too few, unless the kernel rounds otherwise than to
// the nearest. One object counts
// what one test compares, on all backends.
class RoundedIntegers {
 public:
  RoundedIntegers() = default;
  RoundedIntegers(const RoundedIntegers&) = delete;
  RoundedIntegers& operator=(const RoundedIntegers&) = delete;
  template <int Rank> void expect(const Tensor<Rank>& got, const Tensor<Rank>& expected) {
    ASSERT_EQ(got.extents(), expected.extents());
    for (index k = 0; k < got.size(); ++k) {
      const double off = got.get(k) - expected.get(k);
      ASSERT_LE(std::abs(off), 1) << "element " << k << ": got " << got.get(k) << ", expected " << expected.get(k);
      sum_ += off;
      differ_ += off != 0;
    }
    elements_ += static_cast<double>(got.size());
  }
  // 2% may differ, and half of that in one direction; of few elements a handful.
  ~RoundedIntegers() {
    EXPECT_LE(differ_, 0.02 * elements_ + 4) << "of " << elements_ << " integers";
    EXPECT_LE(std::abs(sum_), 0.01 * elements_ + 4) << "of " << elements_ << " integers";
  }

 private:
  double sum_ = 0, differ_ = 0, elements_ = 0;
};

}  // namespace inlay::test
