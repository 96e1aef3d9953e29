#include <inlay/ops/skeleton.hpp>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

// The textbook: double arithmetic, one rounding in put(), nothing clever.
template <> Status compute(const Skeleton<Host>& op) {
  for (index t = 0; t < op.x.extents[0]; ++t)
    for (index i = 0; i < op.x.extents[1]; ++i)
      put(op.y, t, i, op.slope * at(op.x, t, i) + (op.intercept.present() ? at(op.intercept, i) : 0));
  return {};
}

}  // namespace inlay::reference
