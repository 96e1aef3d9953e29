#include <inlay/ops/linear.hpp>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const Linear<Host>& op) {
  const auto factor = [&](double value) {
    return op.compute == LinearCompute::bf16_products ? round_to(DType::bf16, value) : value;
  };
  const auto weight = [&](index n, index k) {
    if (op.weight_rows.present()) return at(op.weight_rows, n, k);
    const auto [panel, step, lane] = linear_packed_at(n, k, op.weight.dtype);
    return at(op.weight, panel, step, lane);
  };
  for (index t = 0; t < op.x.extents[0]; ++t)
    for (index n = 0; n < op.y.extents[1]; ++n) {
      double sum = 0;
      for (index k = 0; k < op.x.extents[1]; ++k) sum += factor(at(op.x, t, k)) * factor(weight(n, k));
      put(op.y, t, n, op.bias.present() ? sum + at(op.bias, n) : sum);
    }
  return {};
}

}  // namespace inlay::reference
