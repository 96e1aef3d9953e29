#include "npu_kernels/rows/tiles.hpp"

#include <algorithm>
#include <utility>

namespace inlay::npu::rows {

namespace {

Tensor window_of(const Tensor& tile, const NdTensor& part) { return tile.slice(0, part.extent(0), 0, part.extent(1)); }

}  // namespace

Part whole_of(const NdTensor& planes) {
  return [planes](const Window& window) { return window.of(planes); };
}

Input::Input(Core& core, std::string_view name, const TileIterator& walk, const NdTensor& planes)
    : Input(core, name, walk, planes.first.dtype, walk.tile(), whole_of(planes), slots) {}

Input::Input(Core& core, std::string_view name, const TileIterator& walk, DType dtype, Shape tile, const Part& part,
             std::uint32_t depth)
    : Input(
          core, name, walk, dtype, tile,
          [part](const Window& window) {
            const NdTensor source = part(window);
            return Shape{source.extent(0), source.extent(1)};
          },
          [part](Core& loader, const Tensor& slot, const Window& window) { loader.copy(by_axes(slot), part(window)); },
          depth) {}

Input::Input(Core& core, std::string_view name, const TileIterator& walk, DType dtype, Shape tile, Extents extents,
             Load load, std::uint32_t depth)
    : core_(core),
      walk_(walk),
      extents_(std::move(extents)),
      load_(std::move(load)),
      ring_(core.ring(name, Space::vector, tile, dtype, {depth, Pipe::load_vector, Pipe::vector})) {
  if (dtype != DType::f32) wide_ = core.alloc(name, Space::vector, tile, DType::f32);
}

void Input::load() {
  const Window window = walk_.at(loaded_++);
  const Shape extents = extents_(window);
  load_(core_, ring_.acquire().slice(0, extents.rows, 0, extents.columns), window);
  ring_.commit();
}

Tensor Input::next() {
  while (loaded_ < std::min(step_ + index{ring_.depth()}, walk_.steps())) load();
  const Shape extents = extents_(walk_.at(step_++));
  held_ = true;
  return ring_.wait().slice(0, extents.rows, 0, extents.columns);
}

Tensor Input::wide() {
  const Tensor tile = next();
  if (tile.dtype == DType::f32) return tile;
  const Tensor wide = wide_.slice(0, tile.rows(), 0, tile.columns());
  core_.vcast(wide, tile);
  done();
  return wide;
}

void Input::done() {
  if (held_) ring_.release();
  held_ = false;
}

Output::Output(Core& core, std::string_view name, const TileIterator& walk, const NdTensor& planes)
    : Output(core, name, planes.first.dtype, walk.tile(), whole_of(planes), slots) {}

Output::Output(Core& core, std::string_view name, DType dtype, Shape tile, Part part, std::uint32_t depth)
    : core_(core),
      dtype_(dtype),
      part_(std::move(part)),
      ring_(core.ring(name, Space::vector, tile, dtype, {depth, Pipe::vector, Pipe::store})) {}

Tensor Output::open(const Window& window) { return window_of(ring_.acquire(), part_(window)); }

void Output::close(const Window& window) {
  const NdTensor part = part_(window);
  ring_.commit();
  core_.copy(part, by_axes(window_of(ring_.wait(), part)));
  ring_.release();
}

Tensor Output::into(const Window& window, const Tensor& spare) {
  direct_ = dtype_ == DType::f32;
  results_ = direct_ ? open(window) : spare;
  return results_;
}

void Output::store(const Window& window) {
  if (!std::exchange(direct_, false)) core_.vcast(open(window), results_);
  close(window);
}

void Output::store(const Window& window, const Tensor& results) {
  results_ = results;
  store(window);
}

SharedRow::SharedRow(Core& core, std::string_view name, const TileIterator& walk, const NdTensor& row, DType as)
    : core_(core),
      row_(row),
      ring_(core.ring(name, Space::vector, {1, walk.tile().columns}, row.first.dtype,
                      {1, Pipe::load_vector, Pipe::vector})),
      wide_(core.alloc(name, Space::vector, {1, walk.tile().columns}, as)) {}

const Tensor& SharedRow::at(const Window& window, const std::function<void(const Tensor&)>& prepare) {
  if (window.column == column_) return now_;
  column_ = window.column;
  const auto part = [&](const Tensor& tile) { return tile.slice(0, 1, 0, window.columns); };
  core_.copy(by_axes(part(ring_.acquire())).at(0, 0), row_.slice(0, window.column, window.columns));
  ring_.commit();
  now_ = part(wide_);
  core_.vcast(now_, part(ring_.wait()));
  ring_.release();
  if (prepare) prepare(now_);
  return now_;
}

Tensor constant(Core& core, std::string_view name, float value) {
  const Tensor one = core.alloc(name, Space::vector, {1, 1}, DType::f32);
  core.vfill(one, value);
  return one;
}

}  // namespace inlay::npu::rows
