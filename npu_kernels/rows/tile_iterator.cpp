#include "npu_kernels/rows/tile_iterator.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu::rows {

namespace {

// The first load and the last store stand alone: with a score of tiles they are a few hundredths.
constexpr index tiles_of_a_worker = 20;
// Shorter transfers than this spend their time in latencies.
constexpr index min_elements = 2048;
constexpr index kept_back = 4096;  // bytes for constants and borders of the memory

// Rows of `columns` elements that fit.
index rows_that_fit(const Memory& memory, const Need& need, index columns) {
  const auto row = [&](DType dtype) { return round_up(byte_size(dtype, columns), memory.align); };
  index bytes = static_cast<index>(memory.bytes) - kept_back, each = need.columns * index{sizeof(float)};
  for (DType dtype : need.rows) bytes -= row(dtype);
  for (DType dtype : need.tiles) each += row(dtype);
  return std::max<index>(0, bytes / std::max<index>(1, each));
}

// The most that is whole groups, or a whole part of one.
index within_groups(index count, index group, bool whole_groups) {
  if (group <= 1) return count;
  if (whole_groups && count >= group) return count / group * group;
  for (index part = std::min(count, group); part > 1; --part)
    if (group % part == 0) return part;
  return 1;
}

Shape tile_of(const Memory& memory, index workers, const Grid& grid, const Need& need, const Pattern& pattern) {
  const index share = std::max(min_elements, grid.size() / workers / tiles_of_a_worker);
  index columns = std::max<index>(2, grid.columns);
  if (pattern.sweeps == 0 && columns > share) columns = share;
  while (columns > 2 && rows_that_fit(memory, need, columns) < 1) columns = ceil_div(columns, 2);
  if (columns < grid.columns) {
    const index granule = 256;  // elements: bytes of any type end at a granule of the memory
    columns = std::max(round_down(columns, granule), pattern.min_columns);
    columns = within_groups(columns, pattern.column_group, true);
  }
  const index all = grid.planes * grid.rows;
  index rows = std::clamp<index>(share / columns, 1, std::max<index>(1, rows_that_fit(memory, need, columns)));
  rows = ceil_div(all, workers * ceil_div(all, workers * rows));  // as many for each worker
  return {within_groups(std::clamp<index>(rows, 1, std::min(grid.rows, pattern.max_rows)), pattern.row_group, false),
          columns};
}

}  // namespace

Need& Need::spare(DType dtype) {
  tiles.push_back(dtype);
  return *this;
}
Need& Need::input(DType dtype) {
  output(dtype);
  return dtype == DType::f32 ? *this : spare();
}
Need& Need::output(DType dtype) { return spare(dtype).spare(dtype).spare(dtype); }
Need& Need::row(DType dtype) {
  rows.insert(rows.end(), {dtype, DType::f32});
  return *this;
}

TileIterator::TileIterator(const Core& core, const Grid& grid, const Need& need, const Pattern& pattern)
    : grid_(grid),
      tile_(tile_of(core.device().memory(Space::vector), core.vector_workers(), grid, need, pattern)),
      whole_(pattern.sweeps > 0),
      down_(ceil_div(grid.rows, tile_.rows)),
      across_(std::max<index>(1, ceil_div(grid.columns, tile_.columns))) {
  if (whole_ && across_ > 1) unit_ = pattern.sweeps * across_;
  const index units = grid.planes * down_ * (whole_ ? 1 : across_);
  first_ = units * core.vector_worker() / core.vector_workers();
  last_ = units * (core.vector_worker() + 1) / core.vector_workers();
}

Window TileIterator::at(index step) const {
  const index unit = first_ + step / unit_;
  const index tile = whole_ ? unit : unit / across_, piece = whole_ ? step % unit_ % across_ : unit % across_;
  const index row = tile % down_ * tile_.rows, column = piece * tile_.columns;
  return {.plane = tile / down_,
          .row = row,
          .rows = std::min(tile_.rows, grid_.rows - row),
          .column = column,
          .columns = std::min(tile_.columns, grid_.columns - column)};
}

int rows_of_planes(const NdTensor& operand) {
  constexpr index enough = 8;
  return operand.extent(1) >= enough || operand.extent(1) >= operand.extent(0) ? 1 : 0;
}

NdTensor planes_of(const NdTensor& operand) {
  if (operand.rank == 2) return operand.split(0, std::max<index>(1, operand.extent(0)));
  return rows_of_planes(operand) == 1 ? operand : operand.permuted({1, 0, 2});
}

}  // namespace inlay::npu::rows
