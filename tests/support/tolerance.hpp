// Tolerances belong to operators, in units of a type's epsilon, and follow from the arithmetic.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tensor.hpp"

namespace inlay::test {

// Half the distance between 1 and the next number: the largest relative error of one rounding.
inline double epsilon(DType type) {
  switch (type) {
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0;
  }
}

// Below this a type has no relative precision: half its smallest subnormal.
inline double underflow(DType type) {
  switch (type) {
    case DType::f32: return 0x1p-150;
    case DType::f16: return 0x1p-25;
    case DType::bf16: return 0x1p-134;
    default: return 0;
  }
}

// |got - expected| <= f32_ulps * eps(f32) * scale + one rounding of the output type, where scale(k)
// bounds the magnitudes that were added up for element k. Both sides were rounded to the output
// type, so two roundings may differ: 2 eps |expected|. `lost` is what flushing subnormals may take
// besides (subnormals.hpp).
template <int Rank, class Scale>
void expect_close(const Tensor<Rank>& got, const Tensor<Rank>& expected, double f32_ulps, Scale&& scale,
                  double lost = 0) {
  ASSERT_EQ(got.extents(), expected.extents());
  const double output = got.dtype() == DType::f32 ? 0 : 2 * epsilon(got.dtype());
  for (index k = 0; k < got.size(); ++k) {
    const double g = got.get(k), e = expected.get(k);
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    const double bound =
        f32_ulps * epsilon(DType::f32) * scale(k) + output * std::abs(e) + 2 * underflow(got.dtype()) + lost;
    ASSERT_LE(std::abs(g - e), bound) << "element " << k << ": got " << g << ", expected " << e;
  }
}

// Relative to the expected value itself.
template <int Rank> void expect_close(const Tensor<Rank>& got, const Tensor<Rank>& expected, double f32_ulps) {
  expect_close(got, expected, f32_ulps, [&](index k) { return std::abs(expected.get(k)); });
}

// Integers and copies: no tolerance at all.
template <int Rank> void expect_equal(const Tensor<Rank>& got, const Tensor<Rank>& expected) {
  ASSERT_EQ(got.extents(), expected.extents());
  for (index k = 0; k < got.size(); ++k)
    if (!(std::isnan(got.get(k)) && std::isnan(expected.get(k)))) {
      ASSERT_EQ(got.get(k), expected.get(k)) << "element " << k;
    }
}

}  // namespace inlay::test
