#include <inlay/ops/layer_norm.hpp>

#include <limits>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const LayerNorm<Host>& op) {
  const index dim = op.x.extents[1];
  std::vector<double> row(static_cast<std::size_t>(dim));
  for (index t = 0; t < op.x.extents[0]; ++t) {
    double sum = 0, squares = 0;
    for (index i = 0; i < dim; ++i) {
      row[i] = at(op.x, t, i);
      if (op.residual.present()) {
        put(op.residual, t, i, row[i] + at(op.residual, t, i));
        row[i] = at(op.residual, t, i);
      }
      sum += row[i];
    }
    const double mean = sum / static_cast<double>(dim);
    for (double& value : row) {
      value -= mean;
      squares += value * value;
    }
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double scale = std::isfinite(squares) ? 1 / std::sqrt(squares / static_cast<double>(dim) + op.eps) : nan;
    for (index i = 0; i < dim; ++i) {
      const double normalised = row[i] * scale * (op.weight.present() ? at(op.weight, i) : 1);
      put(op.y, t, i, normalised + (op.bias.present() ? at(op.bias, i) : 0));
    }
  }
  return {};
}

}  // namespace inlay::reference
