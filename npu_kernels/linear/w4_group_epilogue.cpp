// Sums of groups, scaled and added up in the order of the groups, whatever the products were.
#include <algorithm>

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
  const index products = round_down(room / (op.plan.tiles.sum_n * 4), op.spread) / op.spread;
  return std::min(round_up(std::max<index>(1, op.weight.scales.depth), op.spread), products * op.spread);
}

// Super-blocks that so many groups touch.
index units_at_once(const W4Weight& weight, index groups) {
  return weight.in_units() ? ceil_div(groups, weight.groups_of_unit) + 1 : 0;
}

// A load of few bytes for each tile and group is latency: as many are on their way as the queue of the vector unit has
// room for the work between them, or as flags are left.
std::uint32_t sums_ahead(const Device& device, const W4Groups& op) {
  if (rings_ahead(device) > 1) return 4;
  return op.result.bias.present() && op.halves.power.present() ? 1 : 2;
}

index elements_of_a_granule(const Device& device) {
  return std::max<index>(2, static_cast<index>(device.memory(Space::vector).align) / 4);
}

// Of a tile of granules: rows that start with them.
Tensor rows_of_groups(const Tensor& tile, index groups, index rows) {
  const index wide = round_up(rows, tile.columns());
  return tile.row_slice(0, groups * wide / tile.columns()).reshape({groups, wide}).slice(0, groups, 0, rows);
}

// A column for each tile of rows; where it is not there, next to nothing.
TileForm column_form(const Device& device, const char* name, bool present, index rows) {
  return {name, Space::vector, present ? Shape{rows, elements_of_a_granule(device)} : Shape{1, 2}};
}

TileForm raw_form(const char* name, const RowSource& source, index panels, index groups) {
  return {name, Space::vector, source.count > 0 ? Shape{panels, groups * panel_rows} : Shape{1, 2},
          source.count > 0 ? source.dtype : DType::f32};
}

// C of some rows and channels, product by product.
class W4GroupEpilogue {
 public:
  W4GroupEpilogue(Core& core, Scratch& scratch, const W4Groups& op)
      : core_(core),
        op_(op),
        window_(groups_at_once(core.device(), op)),
        units_(units_at_once(op.weight, window_)),
        of_groups_(core.ring<4>(
            "of groups",
            {raw_form("scales", op.weight.scales, op.plan.tiles.sum_n / panel_rows, window_),
             raw_form("zeros or offsets", op.weight.zeros_or_offsets(), op.plan.tiles.sum_n / panel_rows, window_),
             raw_form("units of scales", op.weight.super_scales, op.plan.tiles.sum_n / panel_rows, units_),
             raw_form("units of offsets", op.weight.super_offsets, op.plan.tiles.sum_n / panel_rows, units_)},
            {rings_ahead(core.device()), Pipe::load_vector, Pipe::vector})),
        scales_(scratch.alloc("scales in f32", {window_, op.plan.tiles.sum_n}, DType::f32)),
        kept_(
            scratch.alloc("y in f32",
                          {std::max<index>(2, kept_rows(core.vector_dim(), op.plan.tiles) / op.plan.products.row_unit),
                           op.plan.tiles.sum_n},
                          DType::f32)),
        terms_(scratch.alloc("terms", {1 + std::max(op.spread, op.plan.tiles.vector_m / op.parts), op.plan.tiles.sum_n},
                             DType::f32)),
        of_rows_(core.ring<2>(
            "of rows",
            {column_form(core.device(), "sums of x", op.shifts(), std::max(op.spread, op.plan.tiles.vector_m)),
             column_form(core.device(), "steps of x", op.bytes, std::max(op.spread, op.plan.tiles.vector_m))},
            {sums_ahead(core.device(), op), Pipe::load_vector, Pipe::vector})),
        finish_(core, op.result,
                {std::max<index>(2, op.plan.tiles.vector_m / op.plan.products.row_unit), op.plan.tiles.sum_n}) {
    if (units_ > 0) of_units_ = scratch.alloc("units in f32", {units_, op.plan.tiles.sum_n}, DType::f32);
    if (op.cuts_segments()) open_ = scratch.alloc("sums of open segments", kept_.shape, DType::f32);
    if (op.shifts()) {
      shifts_ = scratch.alloc("shifts", {window_, op.plan.tiles.sum_n}, DType::f32);
      shifted_ = scratch.alloc("shifts times sums", {std::max(op.spread, op.plan.tiles.vector_m), op.plan.tiles.sum_n},
                               DType::f32);
    }
  }

  void operator()(const Sums& sums) {
    const index unit = op_.plan.products.row_unit, n = sums.tile.columns(), row = sums.row / unit;
    at_ = sums.at / unit;
    const Tensor y = kept_.slice(at_, sums.tile.rows() / unit, 0, n);
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
    if (sums.last) finish_.finish(y, row, sums.column);
  }

 private:
  struct Chunk {  // the groups of a product
    index first, count;
  };
  struct OfRows {  // X and steps of bytes: columns for one group of many rows, or for many groups of one row
    Tensor sums = {}, steps = {};
  };

  // Panels [groups, 16] side by side, in f32.
  void load_scales(const Chunk& chunk, index column, index columns) {
    const index first = chunk.first / op_.groups_of_scale() / window_ * window_;
    if (first == first_group_ && column == first_column_) return;
    first_group_ = first;
    first_column_ = column;
    const index groups = std::min(window_, op_.weight.scales.depth - first), panels = ceil_div(columns, panel_rows);
    const W4Weight& w = op_.weight;
    const index first_unit = w.in_units() ? first / w.groups_of_unit : 0;
    const index units = w.in_units() ? (first + groups - 1) / w.groups_of_unit + 1 - first_unit : 0;
    const auto load = [&](const Tensor& to, const RowSource& source, index line, index lines) {
      if (source.count == 0) return;
      core_.copy(by_axes(to.slice(0, panels, 0, lines * panel_rows)).split(1, panel_rows),
                 source.panels.slice(0, column / panel_rows, panels).slice(1, line, lines));
    };
    const auto to = of_groups_.acquire();
    load(to[0], w.scales, first, groups);
    load(to[1], w.zeros_or_offsets(), first, groups);
    load(to[2], w.super_scales, first_unit, units);
    load(to[3], w.super_offsets, first_unit, units);
    of_groups_.commit();
    const auto from = of_groups_.wait();
    const auto widen = [&](const Tensor& wide, const Tensor& raw, index lines) {
      for (index p = 0; p < panels; ++p)
        core_.vcast(wide.slice(0, lines, p * panel_rows, panel_rows),
                    raw.slice(p, 1, 0, lines * panel_rows).reshape({lines, panel_rows}));
    };
    const auto in_units = [&](const Tensor& all, const Tensor& raw) {
      widen(of_units_, raw, units);
      for (index u = 0, done = 0, end = 0; u < units; ++u, done = end) {
        end = std::min(groups, (first_unit + u + 1) * w.groups_of_unit - first);
        const Tensor some = all.slice(done, end - done, 0, panels * panel_rows);
        core_.vbinary(VectorOp::mul, some, some, of_units_.slice(u, 1, 0, panels * panel_rows));
      }
    };
    widen(scales_, from[0], groups);
    if (w.super_scales.count > 0) in_units(scales_, from[2]);
    if (op_.shifts()) widen(shifts_, from[1], groups);
    if (w.super_offsets.count > 0) in_units(shifts_, from[3]);
    if (w.zeros.count > 0) {
      const index all = panels * panel_rows;
      const Tensor scales = scales_.slice(0, groups, 0, all), shifts = shifts_.slice(0, groups, 0, all);
      if (op_.less_middle()) core_.vscalar(VectorOp::sub, shifts, shifts, w.middle);
      core_.vscalar(VectorOp::mul, shifts, shifts, -1.0f);
      core_.vbinary(VectorOp::mul, shifts, shifts, scales);
    }
    of_groups_.release();
  }

  // Of a product's groups. Many rows: a row for each group, which comes in one run. Few: a granule for each number, as
  // columns of groups are taken out of them.
  OfRows load_rows(const Chunk& chunk, index row, index rows) {
    if (!op_.shifts() && !op_.bytes) return {};
    const index count = chunk.count;
    const bool many = rows >= op_.spread;
    const auto load = [&](const Tensor& to, const Tensor& from) {
      core_.copy(many ? by_axes(rows_of_groups(to, count, rows))
                      : by_axes(to.slice(0, count * rows, 0, 1)).at(1, 0).split(0, rows),
                 by_axes(from).slice(0, chunk.first, count).slice(1, row, rows));
    };
    const auto to = of_rows_.acquire();
    if (op_.shifts()) load(to[0], op_.sums);
    if (op_.bytes) load(to[1], op_.steps);
    of_rows_.commit();
    const auto from = of_rows_.wait();
    const auto all = [&](const Tensor& of, bool present) {
      if (!present) return Tensor{};
      return many ? rows_of_groups(of, count, rows) : of.slice(0, count * rows, 0, 1);
    };
    return {all(from[0], op_.shifts()), all(from[1], op_.bytes)};
  }

  // Of groups that follow one another, or of one group: c times scales, plus shifts times X, times steps of bytes.
  // Either each row has scales of its own, from `at` on, or all have the same.
  void scale(const Tensor& terms, const Tensor& c, index at, bool shared, const OfRows& of_rows) {
    const index rows = c.rows(), n = c.columns(), scales = shared ? 1 : rows;
    core_.vbinary(VectorOp::mul, terms, c, scales_.slice(at, scales, 0, n));
    if (op_.shifts()) {
      const Tensor shifted = shifted_.slice(0, rows, 0, n), shifts = shifts_.slice(at, scales, 0, n);
      if (scales < rows) core_.vbroadcast_row(shifted, shifts);
      core_.vbinary(VectorOp::mul, shifted, scales < rows ? shifted : shifts, of_rows.sums);
      core_.vbinary(VectorOp::add, terms, terms, shifted);
    }
    if (op_.bytes) core_.vbinary(VectorOp::mul, terms, terms, of_rows.steps);
  }

  // One group of many rows.
  void add_group(const Tensor& y, Tensor c, const OfRows& of_rows, index group) {
    if (op_.cuts_segments()) {
      const Tensor all = open_.slice(at_, y.rows(), 0, y.columns());
      if (op_.opens_segment(group))
        core_.vcast(all, c);
      else
        core_.vbinary(VectorOp::add, all, all, c);
      if (!op_.closes_segment(group)) return;
      c = all;
    }
    const Tensor terms = terms_.slice(0, y.rows(), 0, y.columns());
    scale(terms, c, group / op_.groups_of_scale() - first_group_, true, of_rows);
    core_.vbinary(VectorOp::add, y, y, terms);
  }

  // Many groups of one row: y and its terms are summed from above. Those that share scales are multiplied at once.
  void add_groups(const Tensor& y, const Tensor& c, const OfRows& of_rows, const Chunk& chunk) {
    const index share = op_.groups_of_scale();
    const Tensor all = terms_.slice(0, 1 + chunk.count, 0, y.columns()), terms = all.row_slice(1, chunk.count);
    for (index i = 0, count = chunk.count; i < chunk.count; i += count) {
      const index group = chunk.first + i;
      if (share > 1) count = std::min(chunk.count - i, share - group % share);
      const auto part = [&](const Tensor& of) { return of.rows() > 0 ? of.row_slice(i, count) : of; };
      scale(part(terms), part(c), group / share - first_group_, share > 1, {part(of_rows.sums), part(of_rows.steps)});
    }
    core_.vcast(all.row_slice(0, 1), y);
    core_.vreduce_columns(VectorOp::column_sum, y, all);
  }

  void add(const Tensor& y, const Tensor& c, const Chunk& chunk, index row) {
    const index rows = y.rows();
    const OfRows of_rows = load_rows(chunk, row, rows);
    const auto some = [&](auto&& part) {
      return OfRows{op_.shifts() ? part(of_rows.sums) : Tensor{}, op_.bytes ? part(of_rows.steps) : Tensor{}};
    };
    const bool many = rows >= op_.spread;
    if (!many && !op_.cuts_segments())
      for (index t = 0; t < rows; ++t)
        add_groups(y.row_slice(t, 1), c.row_slice(t * op_.spread, chunk.count),
                   some([&](const Tensor& of) { return every(of, rows, t); }), chunk);
    else
      for (index j = 0; j < chunk.count; ++j)
        add_group(y, every(c, op_.spread, j), some([&](const Tensor& of) {
                    return many ? of.row_slice(j, 1).reshape({rows, 1}) : of.row_slice(j * rows, rows);
                  }),
                  chunk.first + j);
    if (op_.shifts() || op_.bytes) of_rows_.release();
  }

  Core& core_;
  const W4Groups& op_;
  index window_;  // groups of the weight whose scales are here
  index units_;   // super-blocks of them
  TupleRing<4> of_groups_;
  Tensor scales_, shifts_, of_units_, kept_, terms_, shifted_;
  Tensor open_;  // sums of segments of which only a part has come: as kept_
  TupleRing<2> of_rows_;
  Epilogue finish_;
  index at_ = 0;                                // of the rows at hand in kept_
  index first_group_ = -1, first_column_ = -1;  // of the window
};

}  // namespace

// As the constructor takes them, and two or three tiles of sums.
index w4_group_epilogue_bytes(const Device& device, const W4Groups& op) {
  const ProductTiles& t = op.plan.tiles;
  const W4Weight& w = op.weight;
  const index row = t.sum_n * 4, unit = op.plan.products.row_unit, ahead = index{rings_ahead(device)};
  const index window = groups_at_once(device, op), high = std::max(op.spread, t.vector_m);
  const auto of_group = [&](const RowSource& source) {
    return source.count > 0 ? t.sum_n * byte_size(source.dtype, 1) : 0;
  };
  const index keeps = op.cuts_segments() ? 2 : 1;
  const index units = units_at_once(w, window);
  const index scales = window * (row + ahead * (of_group(w.scales) + of_group(w.zeros_or_offsets()))) +
                       units * (row + ahead * (of_group(w.super_scales) + of_group(w.super_offsets)));
  const index kept = std::max<index>(2, kept_rows(device.vector_units(), t) / unit);
  const index terms = 1 + std::max(op.spread, t.vector_m / op.parts), shifts = op.shifts() ? window + high : 0;
  const index ahead_of_rows = index{sums_ahead(device, op)} * (1 + (op.bytes && op.shifts() ? 1 : 0));
  const index columns = 4 * elements_of_a_granule(device) * (ahead_of_rows * high + t.vector_m);
  const index y = 2 * std::max<index>(2, t.vector_m / unit) * t.sum_n * byte_size(op.result.y.first.dtype, 1);
  const index bias = op.result.bias.present() ? row : 0;
  return scales + (keeps * kept + terms + shifts) * row + columns + y + bias +
         bytes_on_their_way(device, t, DType::f32);
}

Consumer w4_group_epilogue(Core& core, Scratch& scratch, const W4Groups& op) {
  return [epilogue = std::make_shared<W4GroupEpilogue>(core, scratch, op)](const Sums& sums) { (*epilogue)(sums); };
}

}  // namespace inlay::npu
