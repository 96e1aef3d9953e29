// A packed weight as numbers.
#pragma once

#include <inlay/weights/linear_w4a16_import.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/matrix.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

inline Matrix unpacked(const PackedW4& weight) {
  Matrix m(weight.n, weight.k);
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (index n = 0; n < weight.n; ++n) {
    weight.unpack(n, row.data());
    for (index i = 0; i < weight.k; ++i) m(n, i) = row[static_cast<std::size_t>(i)];
  }
  return m;
}

// And the operator reads it so.
inline void expect_product(const PackedW4& weight, Rng& rng) {
  Tensor<2> x(DType::f32, {3, weight.k}), y(DType::f32, {3, weight.n});
  x.uniform(rng);
  const Matrix w = unpacked(weight), product = matrix(x) * w.transpose();
  const double size = w.cwiseAbs().maxCoeff() * static_cast<double>(weight.k);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, weight.op(x, y))));
  for (index k = 0; k < y.size(); ++k) ASSERT_NEAR(y.get(k), product.data()[k], 4 * epsilon(DType::f32) * size);
}

}  // namespace inlay::test
