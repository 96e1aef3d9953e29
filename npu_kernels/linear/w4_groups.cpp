#include "npu_kernels/linear/w4_groups.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "npu_kernels/backend/row_partition.hpp"
#include "npu_kernels/linear/repack.hpp"
#include "npu_kernels/linear/w4_codes.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

// Rows of x, each spread over a row for each group of a product.
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
  // Rows and slots at once; of the result each row has `spread` times `parts`.
  static RowTile piece(const Device& device, const W4Groups& op) {
    const index unit = op.products.row_unit, all = std::min(op.x.depth, op.slots_of_product());
    const index room = static_cast<index>(device.memory(Space::vector).bytes) / 8 / (2 * 64);
    const index rows = std::min(op.x.count, round_down(room, unit) / unit);
    return {rows, w4_slots_at_once(device, all, 8 * 2 * round_up(rows * unit, 32))};
  }
  void operator()(const Tensor& tile) {
    for (index row = 0; row < op_.x.count; row += piece_.rows)
      for (index k = 0; k < op_.x.depth; k += piece_.depth) {
        const index rows = std::min(piece_.rows, op_.x.count - row), depth = std::min(piece_.depth, op_.x.depth - k);
        const index unit = op_.products.row_unit;
        (*this)(tile.slice(row * unit, rows * unit, k, round_up(depth, block_)), row, k, depth);
      }
  }
  void operator()(const Tensor& tile, index row, index k, index depth) {
    const index rows = tile.rows() / op_.spread, padded = tile.columns();
    core_.vfill(tile, 0);
    stage(core_, rows_.acquire(), op_.rows, row * op_.parts, rows, k, depth);
    rows_.commit();
    spread(tile, rows_.wait().slice(0, rows, 0, padded), k, depth);
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

void store_spread_rows(Core& core, const W4Groups& op) {
  Scratch scratch(core);
  SpreadRows make(core, scratch, op);
  const RowTile piece = SpreadRows::piece(core.device(), op);
  const index block = core.device().fractal_block(DType::f16), unit = op.products.row_unit;
  Ring out = core.ring("spread rows", Space::vector, {piece.rows * unit, piece.depth}, DType::f16,
                       {1, Pipe::vector, Pipe::store}, Layout::nz);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const index across = ceil_div(op.x.depth, piece.depth), pieces = ceil_div(op.x.count, piece.rows) * across;
  for (index i = core.vector_worker(); i < pieces; i += core.vector_workers()) {
    const index row = i / across * piece.rows, k = i % across * piece.depth;
    const index rows = std::min(piece.rows, op.x.count - row) * unit, depth = std::min(piece.depth, op.x.depth - k);
    const index padded = round_up(depth, block);
    make(out.acquire().slice(0, rows, 0, padded), row, k, depth);
    out.commit();
    store_blocks(core, op.left, out.wait().slice(0, rows, 0, padded), row * unit, k);
    out.release();
  }
}

// X, of x times what its halves were scaled by.
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

// x by segments as bytes, in rows of f16; each group of a segment has its step and the sum of all its bytes. A row that
// is not finite has steps of NaN; a segment whose step is subnormal counts as zeros.
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

void make_bytes(Core& core, const W4Groups& op) {
  Scratch scratch(core);
  ByteRows rows(core, scratch, op);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  rows.make();
}

// The spread whose products and drains take the unit least: of few rows as many groups as make up its granule.
index cheapest_spread(const Device& device, const W4Groups& op) {
  const MatrixRate* rate = device.rate(DType::f16, DType::f32);
  const Path* way = drain_path(device);
  const index rows = op.x.count * op.parts, n = op.weight.codes.count, sum_bytes = byte_size(DType::f32, 1);
  // Square tiles of half the accumulators.
  const auto sums = static_cast<double>(device.memory(Space::accumulator).bytes) / 2 / 4;
  const index side = round_down(static_cast<index>(std::sqrt(sums)), rate->n);
  const bool kept = device.feeds_are_views() && device.same_memory(Space::staging, Space::vector);
  const index most = static_cast<index>(device.memory(kept ? Space::staging : Space::vector).bytes) / 4;
  index best = op.sharing;
  double least = 0;
  for (index spread = op.sharing; spread < 2 * op.groups(); spread *= 2) {
    const index high = rows * spread, products = ceil_div(op.groups(), spread);
    if (spread > op.sharing && 2 * high * (kept ? op.x.depth : 64) > most) break;
    const auto bytes = static_cast<double>(high * n * sum_bytes);
    const auto drained = static_cast<double>(ceil_div(high, side) * ceil_div(n, side));
    const double drains = drained * (way->latency + device.matrix.head) + bytes / way->bytes_per_cycle;
    const double work =
        matrix_cycles(device.matrix, *rate, static_cast<std::uint64_t>(high), static_cast<std::uint64_t>(n),
                      static_cast<std::uint64_t>(std::min(spread * op.group, op.x.depth)), false);
    const double cycles = static_cast<double>(products) * (work + drains);
    if (spread > op.sharing && cycles >= least) continue;
    best = spread;
    least = cycles;
  }
  return best;
}

// Of codes that are made as they are used.
index codes_at_once(const Device& device, const W4Groups& op) {
  return w4_slots_at_once(device, op.tiles.chunk_k, 2 * panels_ahead * 4 * panel_rows / 8 * 4);
}

// Where staging is the vector unit's memory: fewer rows at once, then shorter chunks, or fewer columns where rows stay,
// until the epilogue fits beside them.
void make_room_for_epilogue(const Device& device, W4Groups& op) {
  if (!stages_for_vector(device)) return;
  ProductTiles& t = op.tiles;
  const auto all = static_cast<index>(device.memory(Space::vector).bytes);
  const MatrixRate* rate = device.rate(DType::f16, DType::f32);
  const index block = std::max<index>(device.fractal_block(DType::f16), rate->k);
  const auto fits = [&] {
    const bool stored = !op.made || op.codes.blocked();
    const index codes = stored ? 0 : W4Codes::bytes(device, op.weight.codes, codes_at_once(device, op), panels_ahead);
    return staged_bytes(device, op.products, t) + W4GroupEpilogue::bytes(device, op) + codes <= all - all / 64;
  };
  while (!fits() && t.vector_m > op.products.row_unit) t.vector_m -= op.products.row_unit;
  while (!fits() && !t.keeps && t.chunk_k > block) t.chunk_k = round_up(t.chunk_k / 2, block);
  t.feed_k = std::min(t.feed_k, t.chunk_k);
  t.step_k = std::min(t.step_k, t.chunk_k);
  while (!fits() && t.keeps && t.block_n == t.sum_n && t.sum_n > rate->n) t.block_n = t.sum_n -= rate->n;
}

}  // namespace

W4Groups w4_groups(GlobalMemory& memory, const RowSource& x, const W4Weight& weight, const LinearResult& result,
                   bool bytes) {
  const Device& device = memory.device();
  const index block = device.fractal_block(DType::f16), n = weight.codes.count, m = x.count;
  W4Groups op{.x = x,
              .floats = {},
              .weight = weight,
              .bytes = bytes,
              .group = weight.group,
              .rows = {},
              .halves = {},
              .left = {},
              .codes = {},
              .products = {},
              .tiles = {},
              .handover = {},
              .sums = {},
              .steps = {},
              .result = result};
  if (bytes) {
    op.group = weight.scales.depth <= 1 ? longest_segment : std::gcd(weight.group, longest_segment);
    op.floats = x;
    op.x.dtype = DType::f16;
    op.x.rows = by_axes(memory.workspace("bytes of x", {m, x.depth}, DType::f16));
  }
  op.parts = op.x.dtype == DType::f32 ? 2 : 1;
  if (op.groups() > 1) op.sharing = block / std::gcd(op.group, block);
  op.spread = cheapest_spread(device, op);
  op.rows = blocked_operand(memory, "x", m * op.parts, x.depth, DType::f16);
  for (index part = 0; part < op.parts; ++part) {
    Operand rows = op.rows;
    rows.rows = m;
    rows.blocks = op.rows.blocks.split(1, op.parts).at(2, part);
    op.halves.parts.push_back(rows);
  }
  if (op.x.dtype != DType::f16) op.halves.power = memory.workspace("powers of x", {1, m}, DType::f32);
  if (op.groups() > 0) op.result.row_scale = op.halves.powers();
  op.result.powers = true;
  if (op.shifts()) op.sums = memory.workspace("sums of x", {std::max<index>(1, op.groups()), m}, DType::f32);

  if (op.bytes) op.steps = memory.workspace("steps of x", {std::max<index>(1, op.groups()), m}, DType::f32);

  op.left = op.rows;
  op.left.rows = m * op.spread * op.parts;
  op.products = {.left = {op.left},
                 .right = {{.rows = n, .depth = x.depth, .dtype = DType::f16, .lines = {}, .blocks = {}}},
                 .sum = DType::f32,
                 .segments = {},
                 .row_unit = op.spread * op.parts};
  for (index k = 0; k < std::max<index>(1, x.depth); k += op.slots_of_product())
    op.products.segments.push_back({k, std::min(op.slots_of_product(), x.depth - k)});
  op.products.source_bits = bits(weight.codes.dtype);
  op.made = make_or_store(memory, "codes", op.products);
  op.codes = op.products.right.front();
  op.tiles = product_tiles(device, memory.cores(), op.products, op.made);
  make_room_for_epilogue(device, op);
  if (op.made && op.codes.blocked()) {
    const index room = static_cast<index>(device.memory(Space::vector).bytes) - W4GroupEpilogue::bytes(device, op);
    op.tiles.stored_k = std::min(op.tiles.stored_k, W4StoredCodes::slots_in(device, weight.codes, room));
  }
  if (op.spread > 1 && !op.codes.blocked() && op.tiles.block_m >= op.left.rows)
    op.left.blocks = {};
  else if (op.spread > 1)
    op.left = blocked_operand(memory, "spread rows of x", op.left.rows, x.depth, DType::f16);
  op.products.left = {op.left};
  op.handover = handover_workspace(memory, op.products, op.tiles);
  return op;
}

void make_w4_operands(Core& core, const W4Groups& op) {
  const bool spread = op.spread > 1 && op.left.blocked();
  if (op.bytes) {
    make_bytes(core, op);
    core.sync_all();
  }
  make_halves(core, op.x, op.halves);
  if (!op.made) make_w4_codes(core, op.weight.codes, op.less_middle(), op.codes);
  const bool sums = op.shifts() && !op.bytes;
  if (spread || sums) core.sync_all();
  if (sums) make_sums(core, op);
  if (spread) store_spread_rows(core, op);
}

void multiply_w4_groups(Core& core, const W4Groups& op) {
  const bool stores = op.made && op.codes.blocked();
  if (op.x.depth > 0) make_w4_operands(core, op);
  if (op.x.depth > 0 && !stores) core.sync_all();

  Scratch scratch(core);
  W4GroupEpilogue epilogue(core, scratch, op);
  std::optional<SpreadRows> rows;
  Makers makers;
  if (!op.left.blocked()) {
    rows.emplace(core, scratch, op);
    makers.left = std::ref(*rows);
  }
  std::optional<W4Codes> codes;
  std::optional<W4StoredCodes> stored;
  if (stores) {
    stored.emplace(core, scratch, op.weight.codes, op.less_middle(), op.codes, op.tiles.stored_k);
    makers.store_right = std::ref(*stored);
    makers.meet = meeting(core, true);
  } else if (op.made) {
    codes.emplace(core, scratch, op.weight.codes, op.less_middle(), codes_at_once(core.device(), op), panels_ahead);
    makers.right = std::ref(*codes);
  }
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  multiply(
      core, op.products, op.tiles, op.handover, [&](const Sums& sums) { epilogue(sums); }, makers);
}

}  // namespace inlay::npu
