#include <inlay/ops/moe_combine.hpp>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const MoeCombine<Host>& op) {
  for (index t = 0; t < op.y.extents[0]; ++t) {
    const double factor = op.shared_gate.present() ? 1 / (1 + std::exp(-at(op.shared_gate, t, 0))) : 1;
    for (index i = 0; i < op.y.extents[1]; ++i) {
      double sum = 0;
      for (index j = 0; j < op.rows.extents[1]; ++j)
        sum += at(op.weights, t, j) * at(op.x, static_cast<index>(at(op.rows, t, j)), i);
      put(op.y, t, i, op.shared.present() ? sum + factor * at(op.shared, t, i) : sum);
    }
  }
  return {};
}

}  // namespace inlay::reference
