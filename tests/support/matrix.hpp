// A tensor of two dimensions as a matrix of Eigen, in double.
#pragma once

#include <Eigen/Core>

#include "tests/support/tensor.hpp"

namespace inlay::test {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Matrix matrix(const Tensor<2>& tensor) {
  Matrix m(tensor.extents()[0], tensor.extents()[1]);
  for (index i = 0; i < tensor.size(); ++i) m.data()[i] = tensor.get(i);
  return m;
}

}  // namespace inlay::test
