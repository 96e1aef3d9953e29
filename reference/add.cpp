#include <inlay/ops/add.hpp>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const Add<Host>& op) {
  const bool bias = op.b.extents[0] == 1;
  for (index t = 0; t < op.a.extents[0]; ++t)
    for (index i = 0; i < op.a.extents[1]; ++i) put(op.y, t, i, at(op.a, t, i) + at(op.b, bias ? 0 : t, i));
  return {};
}

}  // namespace inlay::reference
