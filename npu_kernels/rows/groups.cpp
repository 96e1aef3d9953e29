#include "npu_kernels/rows/groups.hpp"

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu::rows {

namespace {

// Values along an axis: those that serve `count` elements from `begin` on.
Span along(index group, index begin, index count) {
  if (group == 0) return {0, 1};
  return {begin / group, ceil_div(begin + count, group) - begin / group};
}

index columns_of(const TileIterator& walk, const Groups& groups) {
  return groups.of_columns == 0 ? 1 : std::max<index>(2, ceil_div(walk.tile().columns, groups.of_columns));
}

// Elements of a column that do not follow one another start at granules of their own.
Shape tile_of(const TileIterator& walk, const NdTensor& values, const Groups& groups) {
  const index rows = groups.of_rows == 1 ? walk.tile().rows : 1, columns = columns_of(walk, groups);
  return {rows, columns > 1 || values.stride(0) == 1 || rows == 1 ? columns : 2};
}

}  // namespace

GroupedInput::GroupedInput(Core& core, std::string_view name, const TileIterator& walk, const Codes& codes,
                           const Groups& groups) {
  if (codes.half) {
    half_.emplace(core, name, walk, *codes.half, columns_of(walk, groups),
                  [groups, stride = codes.half->stride](const Window& window) {
                    const Span columns = along(groups.of_columns, window.column, window.columns);
                    const Span rows = along(groups.of_rows, window.row, 1);
                    return Span{rows.first * stride + columns.first, columns.count};
                  });
    return;
  }
  const NdTensor& values = codes.whole;
  input_.emplace(core, name, walk, values.first.dtype, tile_of(walk, values, groups),
                 [values, groups](const Window& window) {
                   const Span rows = along(groups.of_rows, window.row, window.rows);
                   const Span columns = along(groups.of_columns, window.column, window.columns);
                   return values.slice(0, rows.first, rows.count).slice(1, columns.first, columns.count);
                 });
}

void combine(Core& core, VectorOp op, const Tensor& to, const Tensor& a, const Tensor& b, const Groups& groups) {
  const bool each = b.columns() == 1 || b.columns() == a.columns();
  each ? core.vbinary(op, to, a, b) : core.vgrouped(op, to, a, b, groups.column_group);
}

}  // namespace inlay::npu::rows
