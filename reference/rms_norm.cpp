#include <inlay/ops/rms_norm.hpp>

#include <limits>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

template <> Status compute(const RmsNorm<Host>& op) {
  const index dim = op.weight.extents[0];
  std::vector<double> row(static_cast<std::size_t>(dim));
  for (index t = 0; t < op.x.extents[0]; ++t) {
    for (index head = 0; head < op.heads; ++head) {
      const index first = head * dim;
      double sum = 0;
      for (index i = 0; i < dim; ++i) {
        double value = at(op.x, t, first + i);
        if (op.residual.present()) {
          put(op.residual, t, first + i, value + at(op.residual, t, first + i));
          value = at(op.residual, t, first + i);
        }
        row[i] = value;
        sum += value * value;
      }
      const double scale = std::isfinite(sum) ? 1 / std::sqrt(sum / static_cast<double>(dim) + op.eps) : nan;
      const bool casts = op.weight_offset == 0 && op.y.dtype != DType::i8;
      double largest = 0;
      bool finite = true;
      for (index i = 0; i < dim; ++i) {
        const double normalised = casts ? round_to(op.x.dtype, row[i] * scale) : row[i] * scale;
        row[i] = normalised * (at(op.weight, i) + op.weight_offset);
        largest = std::max(largest, std::abs(row[i]));
        finite = finite && std::isfinite(row[i]);
      }
      const double step = finite ? round_to(DType::f32, largest / 127) : nan;
      if (op.y_scale.present()) put(op.y_scale, t, step);
      for (index i = 0; i < dim; ++i)
        put(op.y, t, first + i, op.y.dtype != DType::i8 ? row[i] : step > 0 ? row[i] / step : 0);
    }
  }
  return {};
}

}  // namespace inlay::reference
