#include "npu_kernels/linear/w4_groups.hpp"

#include <algorithm>
#include <limits>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

class ByteRows {
 public:
  ByteRows(Core& core, Scratch& scratch, const W4Groups& op)
      : core_(core),
        op_(op),
        reader_(core, scratch, op.floats, most.rows, most.columns),
        x_(scratch.alloc("x", most, DType::f32)),
        finite_(scratch.alloc("finite", most, DType::f32)),
        bytes_(scratch.alloc("bytes", most, DType::i8)),
        step_(scratch.alloc("step", one, DType::f32)),
        inverse_(scratch.alloc("inverse", one, DType::f32)),
        whole_(scratch.alloc("all finite", one, DType::f32)),
        out_(core.ring("bytes of x", Space::vector, most, DType::f16, {2, Pipe::vector, Pipe::store})),
        columns_(core.ring<2>("of rows", {{{"sums", Space::vector, one}, {"steps", Space::vector, one}}},
                              {2, Pipe::vector, Pipe::store})) {}
  void make() {
    const index across = ceil_div(op_.x.depth, longest_segment), tiles = ceil_div(op_.x.count, most.rows) * across;
    for (index i = core_.vector_worker(); i < tiles; i += core_.vector_workers()) {
      row_ = i / across * most.rows;
      rows_ = std::min(most.rows, op_.x.count - row_);
      const index first = i % across * longest_segment, last = std::min(op_.x.depth, first + longest_segment);
      for (index begin = first, end = 0; begin < last; begin = end) {
        end = std::min(last, (begin / op_.weight.group + 1) * op_.weight.group);
        segment(begin, end - begin);
      }
    }
  }

 private:
  static constexpr Shape most{panel_rows, longest_segment}, one{panel_rows, 2};
  Tensor window(const Tensor& tile, index columns) const { return tile.slice(0, rows_, 0, columns); }
  Tensor column(const Tensor& tile) const { return window(tile, 1); }

  void segment(index begin, index depth) {
    const Tensor x = window(x_, depth), bytes = window(bytes_, depth);
    core_.vcast(x, reader_.read(row_, rows_, begin, depth));
    reader_.release();
    measure(x, window(finite_, depth));
    core_.vbinary(VectorOp::mul, x, x, column(inverse_));
    core_.vcast(bytes, x);
    core_.vcast(x, bytes);
    store_of_rows(x, begin / op_.group, ceil_div(depth, op_.group));
    core_.vcast(window(out_.acquire(), depth), bytes);
    out_.commit();
    core_.copy(op_.x.rows.slice(0, row_, rows_).slice(1, begin, depth), by_axes(window(out_.wait(), depth)));
    out_.release();
  }

  void measure(const Tensor& x, const Tensor& finite) {
    const Tensor step = column(step_), inverse = column(inverse_), whole = column(whole_), normal = column(finite_);
    core_.vunary(VectorOp::abs, finite, x);
    core_.vreduce(VectorOp::reduce_max, step, finite);
    core_.vcompare(Compare::less, finite, finite, std::numeric_limits<float>::infinity());
    core_.vreduce(VectorOp::reduce_min, whole, finite);
    core_.vscalar(VectorOp::div, step, step, 127.0f);
    core_.vfill(inverse, 1);
    core_.vbinary(VectorOp::div, inverse, inverse, step);
    core_.vcompare(Compare::greater_equal, normal, step, 0x1p-126f);
    core_.vselect(inverse, normal, inverse, normal);    // 0 where the step is not
    core_.vbinary(VectorOp::div, whole, whole, whole);  // 1, or NaN
    core_.vbinary(VectorOp::mul, step, step, whole);
  }

  void store_of_rows(const Tensor& x, index group, index groups) {
    const auto of_rows = columns_.acquire();
    core_.vreduce(VectorOp::reduce_sum, column(of_rows[0]), x);
    core_.vcast(column(of_rows[1]), column(step_));
    columns_.commit();
    const auto stored = columns_.wait();
    const auto store = [&](const Tensor& all, index g, const Tensor& of) {
      core_.copy(by_axes(all).at(0, g).slice(0, row_, rows_), by_axes(column(of)).at(1, 0));
    };
    for (index g = group; g < group + groups; ++g) {
      if (op_.shifts()) store(op_.sums, g, stored[0]);
      store(op_.steps, g, stored[1]);
    }
    columns_.release();
  }

  Core& core_;
  const W4Groups& op_;
  RowReader reader_;
  Tensor x_, finite_, bytes_, step_, inverse_, whole_;
  Ring out_;
  TupleRing<2> columns_;
  index row_ = 0, rows_ = 0;
};

// Tiles of spread rows (MakeTile), from those of x that are in blocks.
class SpreadRows {
 public:
  SpreadRows(Core& core, Scratch& scratch, const W4Groups& op)
      : core_(core),
        op_(op),
        block_(core.device().fractal_block(DType::f16)),
        piece_(piece(core.device(), op)),
        rows_(core.ring("x", Space::vector, {piece_.rows * op.parts, piece_.depth}, DType::f16,
                        {1, Pipe::load_vector, Pipe::vector}, Layout::nz)) {
    if (op.sharing == 1) return;
    const index group = op.group, grain = op.sharing * group;
    mine_ = scratch.alloc("slots of each group", {op.sharing, grain}, DType::f16);
    const Tensor slot = scratch.alloc("slots", {1, grain}, DType::f32);
    const Tensor below = scratch.alloc("slots below the next group", {1, grain}, DType::f32);
    const AutoBarrier chain = core.auto_barrier(Pipe::vector);
    core.viota(slot, {});
    for (index j = 0; j < op.sharing; ++j) {
      const Tensor mine = mine_.row_slice(j, 1);
      core.vcompare(Compare::less, below, slot, static_cast<float>((j + 1) * group));
      core.vcompare(Compare::greater_equal, mine, slot, static_cast<float>(j * group));
      core.vbinary(VectorOp::mul, mine, mine, below);
    }
  }
  // Rows and slots of x at once; in a tile each row has `spread` times `parts`.
  static RowTile piece(const Device& device, const W4Groups& op) {
    const index unit = op.plan.products.row_unit, all = std::min(op.x.depth, op.slots_of_product());
    const index room = static_cast<index>(device.memory(Space::vector).bytes) / 8 / (2 * 64);
    const index rows = std::min(op.x.count, round_down(room, unit) / unit);
    return {rows, w4_slots_at_once(device, all, 8 * 2 * round_up(rows * unit, 32))};
  }
  // All of them (MakeLeft).
  void operator()(const Tensor& tile) {
    for (index row = 0; row < op_.x.count; row += piece_.rows)
      for (index k = 0; k < op_.x.depth; k += piece_.depth) {
        const index rows = std::min(piece_.rows, op_.x.count - row), depth = std::min(piece_.depth, op_.x.depth - k);
        const index unit = op_.plan.products.row_unit;
        (*this)(tile.slice(row * unit, rows * unit, k, round_up(depth, block_)), row * unit, rows * unit, k, depth);
      }
  }
  void operator()(const Tensor& tile, index row, index rows, index k, index depth) {
    const index from = row / op_.spread, count = rows / op_.spread;
    core_.vfill(tile, 0);
    stage(core_, rows_.acquire(), op_.rows, from, count, k, depth);
    rows_.commit();
    spread(tile, rows_.wait().slice(0, count, 0, tile.columns()), k, depth);
    rows_.release();
  }

 private:
  void spread(const Tensor& tile, const Tensor& x, index begin, index depth) {
    const index group = op_.group, end = begin + depth;
    for (index g = begin / group; g * group < end; ++g) {
      const index first = std::max(begin, g * group), last = std::min(end, (g + 1) * group);
      const index from = first / block_ * block_, to = std::min(round_up(last, block_), begin + tile.columns());
      for (index t = 0; t < x.rows() / op_.parts; ++t) {
        const Tensor row =
            tile.slice((t * op_.spread + g % op_.spread) * op_.parts, op_.parts, from - begin, to - from);
        const Tensor source = x.slice(t * op_.parts, op_.parts, from - begin, to - from);
        if (op_.sharing == 1) {
          core_.vcast(row, source);
        } else {
          const index grain = g / op_.sharing * op_.sharing * group;
          core_.vselect(row, mine_.slice(g % op_.sharing, 1, from - grain, to - from), source, row);
        }
      }
    }
  }

  Core& core_;
  const W4Groups& op_;
  index block_;
  RowTile piece_;
  Ring rows_;
  Tensor mine_;  // [groups that share blocks, their slots]: not 0 where the slot is the group's
};

}  // namespace

void make_slots(Core& core, const W4Slots& to) {
  const index slots = to.slots.columns(), inputs = to.x.depth;
  const RowTile tile = row_tile(core.device(), DType::f16, std::max(slots, inputs), 32);
  Scratch scratch(core);
  RowReader reader(core, scratch, to.x, tile.rows, tile.depth);
  const Shape shape{tile.rows, tile.depth};
  const Tensor x = scratch.alloc("x", shape, DType::f32), found = scratch.alloc("found", shape, DType::f32);
  const Tensor places = scratch.alloc("places", {1, tile.depth}, DType::i32);
  Ring perm = core.ring("perm", Space::vector, {1, tile.depth}, DType::i32, {1, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("slots", Space::vector, shape, DType::f32, {2, Pipe::vector, Pipe::store});
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const index across = ceil_div(slots, tile.depth), tiles = ceil_div(to.x.count, tile.rows) * across;
  for (index i = core.vector_worker(); i < tiles; i += core.vector_workers()) {
    const index row = i / across * tile.rows, slot = i % across * tile.depth;
    const index rows = std::min(tile.rows, to.x.count - row), count = std::min(tile.depth, slots - slot);
    const Tensor at = places.slice(0, 1, 0, count), gathered = found.slice(0, rows, 0, count);
    core.copy(by_axes(perm.acquire().slice(0, 1, 0, count)).at(0, 0), to.perm.slice(0, slot, count));
    perm.commit();
    const Tensor inputs_of = perm.wait().slice(0, 1, 0, count), sum = out.acquire().slice(0, rows, 0, count);
    core.vfill(sum, 0);
    for (index k = 0; k < inputs; k += tile.depth) {
      const index depth = std::min(tile.depth, inputs - k);
      const Tensor part = x.slice(0, rows, 0, depth);
      core.vcast(part, reader.read(row, rows, k, depth));
      reader.release();
      core.vscalar(VectorOp::sub, at, inputs_of, static_cast<std::int32_t>(k));
      core.vgather(gathered, part, at);
      core.vbinary(VectorOp::add, sum, sum, gathered);
    }
    perm.release();
    out.commit();
    core.copy(by_axes(to.slots.slice(row, rows, slot, count)), by_axes(out.wait().slice(0, rows, 0, count)));
    out.release();
  }
}

void make_bytes(Core& core, const W4Groups& op) {
  Scratch scratch(core);
  ByteRows rows(core, scratch, op);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  rows.make();
}

void make_sums(Core& core, const W4Groups& op) {
  const RowTile tile = row_tile(core.device(), DType::f16, std::min(op.group, op.x.depth), 16);
  Scratch scratch(core);
  RowReader reader(core, scratch, op.x, tile.rows, tile.depth);
  const Shape one{tile.rows, 2};
  const Tensor part = scratch.alloc("of a piece", one, DType::f32), total = scratch.alloc("sum", one, DType::f32);
  const Tensor x = scratch.alloc("x", {tile.rows, tile.depth}, DType::f32);
  Ring powers = core.ring("powers", Space::vector, one, DType::f32, {1, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("sums", Space::vector, one, DType::f32, {2, Pipe::vector, Pipe::store});
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const index groups = op.groups(), tiles = ceil_div(op.x.count, tile.rows) * groups;
  for (index i = core.vector_worker(); i < tiles; i += core.vector_workers()) {
    const index row = i / groups * tile.rows, g = i % groups, rows = std::min(tile.rows, op.x.count - row);
    const index end = std::min(op.x.depth, (g + 1) * op.group);
    const auto column = [&](const Tensor& of) { return of.slice(0, rows, 0, 1); };
    core.vfill(column(total), 0);
    for (index k = g * op.group; k < end; k += tile.depth) {
      const Tensor piece = x.slice(0, rows, 0, std::min(tile.depth, end - k));
      core.vcast(piece, reader.read(row, rows, k, piece.columns()));
      reader.release();
      core.vreduce(VectorOp::reduce_sum, column(part), piece);
      core.vbinary(VectorOp::add, column(total), column(total), column(part));
    }
    if (op.halves.power.present()) {
      core.copy(by_axes(column(powers.acquire())).at(1, 0), by_axes(op.halves.power).at(0, 0).slice(0, row, rows));
      powers.commit();
      core.vfill(column(part), half_scale);
      core.vbinary(VectorOp::div, column(part), column(part), column(powers.wait()));
      powers.release();
      core.vbinary(VectorOp::mul, column(total), column(total), column(part));
    }
    core.vcast(column(out.acquire()), column(total));
    out.commit();
    core.copy(by_axes(op.sums).at(0, g).slice(0, row, rows), by_axes(column(out.wait())).at(1, 0));
    out.release();
  }
}

MakeLeft spread_rows(Core& core, Scratch& scratch, const W4Groups& op) {
  return [rows = std::make_shared<SpreadRows>(core, scratch, op)](const Tensor& tile) { (*rows)(tile); };
}

void store_spread_rows(Core& core, const W4Groups& op) {
  Scratch scratch(core);
  SpreadRows make(core, scratch, op);
  const RowTile piece = SpreadRows::piece(core.device(), op);
  StoredTiles store(core, std::ref(make), op.left, {piece.rows * op.plan.products.row_unit, piece.depth});
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  store.all();
}

}  // namespace inlay::npu
