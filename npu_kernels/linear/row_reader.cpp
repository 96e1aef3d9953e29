#include "npu_kernels/linear/row_reader.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Rows start at granules where there are two columns or more.
Shape tile_shape(const RowSource& source, index rows, index depth) {
  if (!source.packed()) return {rows, std::max<index>(2, depth)};
  return {1, ceil_div(depth, source.per_word()) * panel_rows};  // words lie side by side, as in global memory
}

}  // namespace

RowReader::RowReader(Core& core, Scratch& scratch, const RowSource& source, index rows, index depth,
                     std::uint32_t on_their_way)
    : core_(core),
      source_(source),
      tiles_(core.ring("rows", Space::vector, tile_shape(source, rows, depth),
                       source.packed() ? source.panels.first.dtype : source.dtype,
                       {on_their_way, Pipe::load_vector, Pipe::vector})) {
  if (!source.packed()) return;
  const index words = std::max<index>(2, ceil_div(depth, source.per_word()));
  turned_ = scratch.alloc("turned words", {panel_rows, words}, source.panels.first.dtype);
}

Tensor RowReader::read(index row, index rows, index k, index depth) {
  if (!source_.packed()) {
    core_.copy(by_axes(tiles_.acquire().slice(0, rows, 0, depth)), source_.rows.slice(0, row, rows).slice(1, k, depth));
    tiles_.commit();
    return tiles_.wait().slice(0, rows, 0, depth);
  }
  const index per_word = source_.per_word(), words = ceil_div(depth, per_word);
  core_.copy(by_axes(tiles_.acquire().slice(0, 1, 0, words * panel_rows)).at(0, 0).split(0, panel_rows),
             source_.panels.at(0, row / panel_rows).slice(0, k / per_word, words));
  tiles_.commit();
  const Tensor panel = tiles_.wait().slice(0, 1, 0, words * panel_rows).reshape({words, panel_rows});
  core_.vtranspose(turned_.slice(0, panel_rows, 0, words), panel);
  Tensor result = turned_;
  result.dtype = source_.dtype;
  result.shape.columns *= per_word;
  result.pitch *= per_word;
  return result.slice(0, rows, 0, depth);
}

void RowReader::release() { tiles_.release(); }

}  // namespace inlay::npu
