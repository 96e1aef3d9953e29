#include <inlay/ops/swiglu.hpp>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const Swiglu<Host>& op) {
  const double limit = op.limit;
  for (index t = 0; t < op.gate.extents[0]; ++t)
    for (index i = 0; i < op.gate.extents[1]; ++i) {
      double g = at(op.gate, t, i), u = at(op.up, t, i);
      if (g > limit) g = limit;
      if (u > limit) u = limit;
      if (u < -limit) u = -limit;
      put(op.y, t, i, g / (1 + std::exp(-op.alpha * g)) * (u + op.up_offset));
    }
  return {};
}

}  // namespace inlay::reference
