#include <inlay/ops/linear.hpp>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

#include "reference/experts.hpp"

namespace inlay::reference {

template <> Status compute(const Linear<Host>& op) {
  const auto factor = [&](double value) {
    return op.compute == LinearCompute::bf16_products ? round_to(DType::bf16, value) : value;
  };
  const index channels = op.y.extents[1], panels = groups_of(channels, linear_panel);
  const auto weight = [&](index expert, index n, index k) {
    if (op.weight_rows.present()) return at(op.weight_rows, expert * channels + n, k);
    const auto [panel, step, lane] = linear_packed_at(n, k, op.weight.dtype);
    return at(op.weight, expert * panels + panel, step, lane);
  };
  for_each_expert(op, [&](index expert, index first, index end) {
    for (index t = first; t < end; ++t)
      for (index n = 0; n < channels; ++n) {
        double sum = 0;
        for (index k = 0; k < op.x.extents[1]; ++k) sum += factor(at(op.x, t, k)) * factor(weight(expert, n, k));
        put(op.y, t, n, op.bias.present() ? sum + at(op.bias, expert * channels + n) : sum);
      }
  });
  return {};
}

}  // namespace inlay::reference
