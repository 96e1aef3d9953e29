#include <inlay/ops/dequantize.hpp>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const Dequantize<Host>& op) {
  const auto group_of = [](index groups, index i, index group) { return group > 0 ? i / group : groups == 1 ? 0 : i; };
  for (index t = 0; t < op.x.extents[0]; ++t)
    for (index i = 0; i < op.x.extents[1]; ++i) {
      const index row = group_of(op.scale.extents[0], t, op.row_group);
      const index column = group_of(op.scale.extents[1], i, op.column_group);
      const double zero = op.zero.present() ? at(op.zero, row, column) : 0;
      put(op.y, t, i, round_to(DType::f32, (at(op.x, t, i) - zero) * at(op.scale, row, column)));
    }
  return {};
}

}  // namespace inlay::reference
