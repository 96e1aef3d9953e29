// Eigen as a baseline: the only file of the benchmarks that is built for the machine it runs on.
#include <Eigen/Core>

#include <inlay/core/dtype.hpp>

namespace inlay::bench {

void eigen_linear(const float* x, const float* w, float* y, index tokens, index n, index k, int threads) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::setNbThreads(threads);
  const Eigen::Map<const Matrix> a(x, tokens, k), b(w, n, k);
  Eigen::Map<Matrix> c(y, tokens, n);
  if (tokens == 1)
    c.row(0).transpose().noalias() = b * a.row(0).transpose();
  else
    c.noalias() = a * b.transpose();
}

}  // namespace inlay::bench
