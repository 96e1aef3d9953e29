#include <inlay/ops/embedding.hpp>

#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const Embedding<Host>& op) {
  const index dim = op.y.extents[1];
  std::vector<float> row(static_cast<std::size_t>(dim));
  for (index t = 0; t < op.y.extents[0]; ++t) {
    const index id = entry(op.ids, t);
    if (op.table.dtype == DType::u8)
      dequantize_row(op.format, op.table.as<std::uint8_t>() + id * op.table.strides[0], dim, row.data());
    for (index i = 0; i < dim; ++i) {
      const double value = op.table.dtype == DType::u8 ? row[i] : at(op.table, id, i);
      put(op.y, t, i, value * (op.row_scale.present() ? at(op.row_scale, id) : 1) * op.scale);
    }
  }
  return {};
}

}  // namespace inlay::reference
