// Sums of groups, scaled and added up in the order of the groups, whatever the products were.
#include <algorithm>

#include "npu_kernels/linear/handover.hpp"
#include "npu_kernels/linear/w4_groups.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Rows first, first + step, ..
Tensor every(Tensor tile, index step, index first) {
  Tensor rows = tile.slice(first, tile.rows() - first, 0, tile.columns());
  rows.shape.rows = tile.rows() / step;
  rows.pitch *= step;
  return rows;
}

// Groups whose scales fit a sixteenth of the vector unit's memory, in whole products.
index groups_at_once(const Device& device, const W4Groups& op) {
  const index room = static_cast<index>(device.memory(Space::vector).bytes) / 16;
  const index products = round_down(room / (op.tiles.sum_n * 4), op.spread) / op.spread;
  return std::min(round_up(std::max<index>(1, op.groups()), op.spread), products * op.spread);
}

// A load of few bytes for each tile and group is latency: as many are on their way as the queue of the vector unit has
// room for the work between them, or as flags are left.
std::uint32_t sums_ahead(const Device& device, const W4Groups& op) {
  if (rings_ahead(device) > 1) return 4;
  return op.bias.present() && op.halves.power.present() ? 1 : 2;
}

index elements_of_a_granule(const Device& device) {
  return std::max<index>(2, static_cast<index>(device.memory(Space::vector).align) / 4);
}

// Of a tile of granules: rows that start with them.
Tensor rows_of_groups(const Tensor& tile, index groups, index rows) {
  const index wide = round_up(rows, tile.columns());
  return tile.row_slice(0, groups * wide / tile.columns()).reshape({groups, wide}).slice(0, groups, 0, rows);
}

TileForm raw_form(const char* name, const RowSource& source, index panels, index groups) {
  return {name, Space::vector, source.count > 0 ? Shape{panels, groups * panel_rows} : Shape{1, 2},
          source.count > 0 ? source.dtype : DType::f32};
}

}  // namespace

// As the constructor takes them, and two or three tiles of sums.
index W4GroupEpilogue::bytes(const Device& device, const W4Groups& op) {
  const ProductTiles& t = op.tiles;
  const W4Weight& w = op.weight;
  const index row = t.sum_n * 4, unit = op.products.row_unit, ahead = index{rings_ahead(device)};
  const index window = groups_at_once(device, op), high = std::max(op.spread, t.vector_m);
  const auto of_group = [&](const RowSource& source) {
    return source.count > 0 ? t.sum_n * byte_size(source.dtype, 1) : 0;
  };
  const index scales = window * (row + ahead * (of_group(w.scales) + of_group(op.weight.zeros_or_offsets())));
  const index kept = std::max<index>(2, kept_rows(device.vector_units(), t) / unit);
  const index terms = 1 + std::max(op.spread, t.vector_m / op.parts), shifts = op.shifts() ? window + high : 0;
  const index columns = 4 * elements_of_a_granule(device) * (index{sums_ahead(device, op)} * high + t.vector_m);
  const index y = 2 * std::max<index>(2, t.vector_m / unit) * t.sum_n * byte_size(op.y.first.dtype, 1);
  const index bias = op.bias.present() ? row : 0;
  return scales + (kept + terms + shifts) * row + columns + y + bias + SumsToVector::bytes(device, t, DType::f32);
}

W4GroupEpilogue::W4GroupEpilogue(Core& core, Scratch& scratch, const W4Groups& op)
    : core_(core),
      op_(op),
      window_(groups_at_once(core.device(), op)),
      of_groups_(core.ring<2>(
          "of groups",
          {raw_form("scales", op.weight.scales, op.tiles.sum_n / panel_rows, window_),
           raw_form("zeros or offsets", op.weight.zeros_or_offsets(), op.tiles.sum_n / panel_rows, window_)},
          {rings_ahead(core.device()), Pipe::load_vector, Pipe::vector})),
      scales_(scratch.alloc("scales in f32", {window_, op.tiles.sum_n}, DType::f32)),
      kept_(scratch.alloc(
          "y in f32",
          {std::max<index>(2, kept_rows(core.vector_dim(), op.tiles) / op.products.row_unit), op.tiles.sum_n},
          DType::f32)),
      terms_(
          scratch.alloc("terms", {1 + std::max(op.spread, op.tiles.vector_m / op.parts), op.tiles.sum_n}, DType::f32)),
      sums_(core.ring("sums of x", Space::vector,
                      {std::max(op.spread, op.tiles.vector_m), elements_of_a_granule(core.device())}, DType::f32,
                      {sums_ahead(core.device(), op), Pipe::load_vector, Pipe::vector})),
      finished_(core, op.y, op.bias, {std::max<index>(2, op.tiles.vector_m / op.products.row_unit), op.tiles.sum_n}) {
  if (op.halves.power.present())
    powers_.emplace(
        core.ring("powers", Space::vector, {op.tiles.vector_m, 2}, DType::f32, {1, Pipe::load_vector, Pipe::vector}));
  if (op.shifts()) {
    shifts_ = scratch.alloc("shifts", {window_, op.tiles.sum_n}, DType::f32);
    shifted_ = scratch.alloc("shifts times sums", {std::max(op.spread, op.tiles.vector_m), op.tiles.sum_n}, DType::f32);
  }
}

// Panels [groups, 16] side by side, in f32.
void W4GroupEpilogue::load_scales(const Chunk& chunk, index column, index columns) {
  const index first = chunk.first / window_ * window_;
  if (first == first_group_ && column == first_column_) return;
  first_group_ = first;
  first_column_ = column;
  const index groups = std::min(window_, op_.groups() - first), panels = ceil_div(columns, panel_rows);
  const W4Weight& w = op_.weight;
  const auto load = [&](const Tensor& to, const RowSource& from) {
    core_.copy(by_axes(to.slice(0, panels, 0, groups * panel_rows)).split(1, panel_rows),
               from.panels.slice(0, column / panel_rows, panels).slice(1, first, groups));
  };
  const auto to = of_groups_.acquire();
  load(to[0], w.scales);
  if (op_.shifts()) load(to[1], op_.weight.zeros_or_offsets());
  of_groups_.commit();
  const auto from = of_groups_.wait();
  const auto each_panel = [&](const Tensor& wide, const Tensor& raw, auto&& visit) {
    for (index p = 0; p < panels; ++p)
      visit(wide.slice(0, groups, p * panel_rows, panel_rows),
            raw.slice(p, 1, 0, groups * panel_rows).reshape({groups, panel_rows}));
  };
  each_panel(scales_, from[0], [&](const Tensor& wide, const Tensor& raw) { core_.vcast(wide, raw); });
  if (op_.shifts())
    each_panel(shifts_, from[1], [&](const Tensor& wide, const Tensor& raw) { core_.vcast(wide, raw); });
  if (w.zeros.count > 0) {
    const index all = panels * panel_rows;
    const Tensor scales = scales_.slice(0, groups, 0, all), shifts = shifts_.slice(0, groups, 0, all);
    core_.vscalar(VectorOp::sub, shifts, shifts, w.middle);
    core_.vscalar(VectorOp::mul, shifts, shifts, -1.0f);
    core_.vbinary(VectorOp::mul, shifts, shifts, scales);
  }
  of_groups_.release();
}

// X of a product's groups. Many rows: a row for each group, which comes in one run. Few: a granule for each number, as
// columns of groups are taken out of them.
Tensor W4GroupEpilogue::load_sums(const Chunk& chunk, index row, index rows) {
  const index count = chunk.count;
  const NdTensor from = by_axes(op_.sums).slice(0, chunk.first, count).slice(1, row, rows);
  const bool many = rows >= op_.spread;
  const Tensor to = sums_.acquire();
  core_.copy(many ? by_axes(rows_of_groups(to, count, rows))
                  : by_axes(to.slice(0, count * rows, 0, 1)).at(1, 0).split(0, rows),
             from);
  sums_.commit();
  const Tensor sums = sums_.wait();
  return many ? rows_of_groups(sums, count, rows) : sums.slice(0, count * rows, 0, 1);
}

// One group of many rows.
void W4GroupEpilogue::add_group(const Tensor& y, const Tensor& c, const Tensor& sums, index group) {
  const index rows = y.rows(), n = y.columns(), at = group - first_group_;
  const Tensor terms = terms_.slice(0, rows, 0, n);
  core_.vbinary(VectorOp::mul, terms, c, scales_.slice(at, 1, 0, n));
  if (op_.shifts()) {
    const Tensor shifted = shifted_.slice(0, rows, 0, n);
    core_.vbroadcast_row(shifted, shifts_.slice(at, 1, 0, n));
    core_.vbinary(VectorOp::mul, shifted, shifted, sums);
    core_.vbinary(VectorOp::add, terms, terms, shifted);
  }
  core_.vbinary(VectorOp::add, y, y, terms);
}

// Many groups of one row: y and its terms are summed from above.
void W4GroupEpilogue::add_groups(const Tensor& y, const Tensor& c, const Tensor& sums, const Chunk& chunk) {
  const index n = y.columns(), at = chunk.first - first_group_;
  const Tensor all = terms_.slice(0, 1 + chunk.count, 0, n), terms = all.row_slice(1, chunk.count);
  core_.vbinary(VectorOp::mul, terms, c, scales_.slice(at, chunk.count, 0, n));
  if (op_.shifts()) {
    const Tensor shifted = shifted_.slice(0, chunk.count, 0, n);
    core_.vbinary(VectorOp::mul, shifted, shifts_.slice(at, chunk.count, 0, n), sums);
    core_.vbinary(VectorOp::add, terms, terms, shifted);
  }
  core_.vcast(all.row_slice(0, 1), y);
  core_.vreduce_columns(VectorOp::column_sum, y, all);
}

void W4GroupEpilogue::add(const Tensor& y, const Tensor& c, const Chunk& chunk, index row) {
  const index rows = y.rows();
  const Tensor sums = op_.shifts() ? load_sums(chunk, row, rows) : Tensor{};
  if (rows < op_.spread)
    for (index t = 0; t < rows; ++t)
      add_groups(y.row_slice(t, 1), c.row_slice(t * op_.spread, chunk.count),
                 op_.shifts() ? every(sums, rows, t) : sums, chunk);
  else
    for (index j = 0; j < chunk.count; ++j)
      add_group(y, every(c, op_.spread, j), op_.shifts() ? sums.row_slice(j, 1).reshape({rows, 1}) : sums,
                chunk.first + j);
  if (op_.shifts()) sums_.release();
}

void W4GroupEpilogue::finish(const Tensor& y, const Sums& sums, index row) {
  const index m = y.rows();
  if (op_.halves.power.present() && op_.groups() > 0) {
    core_.vscalar(VectorOp::mul, y, y, 1 / half_scale);
    core_.copy(by_axes(powers_->acquire().slice(0, m, 0, 1)).at(1, 0),
               by_axes(op_.halves.power).at(0, 0).slice(0, row, m));
    powers_->commit();
    core_.vbinary(VectorOp::mul, y, y, powers_->wait().slice(0, m, 0, 1));
    powers_->release();
  }
  finished_(y, row, sums.column);
}

void W4GroupEpilogue::operator()(const Sums& sums) {
  const index unit = op_.products.row_unit, n = sums.tile.columns(), row = sums.row / unit;
  const Tensor y = kept_.slice(sums.at / unit, sums.tile.rows() / unit, 0, n);
  if (sums.step == 0) core_.vfill(y, 0);
  const index first = sums.step * op_.spread;
  const Chunk chunk{first, std::min(op_.spread, op_.groups() - first)};
  if (chunk.count > 0) {
    load_scales(chunk, sums.column, n);
    Tensor c = sums.tile;
    if (op_.parts == 2) {
      c = every(sums.tile, 2, 0);
      core_.vbinary(VectorOp::add, c, c, every(sums.tile, 2, 1));
    }
    add(y, c, chunk, row);
  }
  if (sums.last) finish(y, sums, row);
}

}  // namespace inlay::npu
