#include "npu_kernels/linear/w4_int8.hpp"

#include <algorithm>
#include <limits>

#include "npu_kernels/linear/halves.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

namespace {

constexpr index longest_segment = 128;

Tensor as(Tensor tile, DType dtype) {
  tile.dtype = dtype;
  return tile;
}

// Bytes, steps and sums of x, segment by segment. A row that is not finite has a step of NaN.
void make_bytes(Core& core, const W4Int8& to) {
  const index rows_at_once = panel_rows, width = to.bytes.blocks.extent(2);
  const index padded_most = round_up(longest_segment, width);
  Scratch scratch(core);
  RowReader reader(core, scratch, to.x, rows_at_once, longest_segment);
  const Tensor x = scratch.alloc("x", {rows_at_once, longest_segment}, DType::f32);
  const Tensor finite = scratch.alloc("finite", {rows_at_once, longest_segment}, DType::f32);
  const Tensor bytes = scratch.alloc("bytes", {rows_at_once, padded_most}, DType::i8);
  const Shape one{rows_at_once, 2};
  const Tensor step_of = scratch.alloc("step", one, DType::f32), inverse_of = scratch.alloc("inverse", one, DType::f32);
  const Tensor whole_of = scratch.alloc("all finite", one, DType::f32);
  Ring out = core.ring("blocks", Space::vector, {rows_at_once, padded_most}, DType::i8, {2, Pipe::vector, Pipe::store},
                       Layout::nz);
  auto columns = core.ring<2>("of rows", {{{"steps", Space::vector, one}, {"sums", Space::vector, one}}},
                              {2, Pipe::vector, Pipe::store});
  const Chain chain = core.chain(Pipe::vector);
  const auto segments = static_cast<index>(to.segments.size()), tiles = ceil_div(to.x.count, rows_at_once) * segments;
  for (index i = core.vector_worker(); i < tiles; i += core.vector_workers()) {
    const index row = i / segments * rows_at_once, s = i % segments, rows = std::min(rows_at_once, to.x.count - row);
    const W4Segment& segment = to.segments[static_cast<std::size_t>(s)];
    const index depth = segment.depth, padded = round_up(depth, width);
    const auto window = [&](const Tensor& tile) { return tile.slice(0, rows, 0, depth); };
    const auto column = [&](const Tensor& tile) { return tile.slice(0, rows, 0, 1); };
    const Tensor step = column(step_of), inverse = column(inverse_of), whole = column(whole_of);
    core.vcast(window(x), reader.read(row, rows, segment.begin, depth));
    reader.release();
    core.vunary(VectorOp::abs, window(finite), window(x));
    core.vreduce(VectorOp::reduce_max, step, window(finite));
    core.vcompare(Compare::less, window(finite), window(finite), std::numeric_limits<float>::infinity());
    core.vreduce(VectorOp::reduce_min, whole, window(finite));
    core.vscalar(VectorOp::div, step, step, 127.0f);
    core.vfill(inverse, 1);
    core.vbinary(VectorOp::div, inverse, inverse, step);
    const Tensor normal = finite.slice(0, rows, 0, 1);
    core.vcompare(Compare::greater_equal, normal, step, 0x1p-126f);
    core.vselect(inverse, normal, inverse, normal);    // 0 where the step is not
    core.vbinary(VectorOp::div, whole, whole, whole);  // 1, or NaN
    core.vbinary(VectorOp::mul, step, step, whole);
    core.vbinary(VectorOp::mul, window(x), window(x), inverse);
    if (padded > depth) core.vfill(bytes.slice(0, rows, 0, padded), 0);
    core.vcast(window(bytes), window(x));
    core.vcast(window(x), window(bytes));
    const auto results = columns.acquire();
    core.vcast(column(results[0]), step);
    core.vreduce(VectorOp::reduce_sum, column(results[1]), window(x));
    columns.commit();
    const auto stored = columns.wait();
    core.copy(by_axes(to.steps).at(0, s).slice(0, row, rows), by_axes(column(stored[0])).at(1, 0));
    core.copy(by_axes(to.sums).at(0, s).slice(0, row, rows), by_axes(column(stored[1])).at(1, 0));
    columns.release();
    core.vpack_nz(out.acquire().slice(0, rows, 0, padded), bytes.slice(0, rows, 0, padded));
    out.commit();
    store_blocks(core, to.bytes, out.wait().slice(0, rows, 0, padded), row, segment.first);
    out.release();
  }
}

// Codes less their middle, as bytes.
void make_codes(Core& core, const W4Int8& to) {
  const index width = to.codes.blocks.extent(2), padded_most = round_up(longest_segment, width);
  Scratch scratch(core);
  RowReader reader(core, scratch, to.weight.codes, panel_rows, longest_segment);
  const Tensor bytes = scratch.alloc("bytes", {panel_rows, padded_most}, DType::i8);
  Ring out = core.ring("blocks", Space::vector, {panel_rows, padded_most}, DType::i8, {2, Pipe::vector, Pipe::store},
                       Layout::nz);
  const Chain chain = core.chain(Pipe::vector);
  const auto segments = static_cast<index>(to.segments.size());
  const index tiles = ceil_div(to.weight.codes.count, panel_rows) * segments;
  for (index i = core.vector_worker(); i < tiles; i += core.vector_workers()) {
    const index row = i / segments * panel_rows, rows = std::min(panel_rows, to.weight.codes.count - row);
    const W4Segment& segment = to.segments[static_cast<std::size_t>(i % segments)];
    const index padded = round_up(segment.depth, width);
    const Tensor part = bytes.slice(0, rows, 0, segment.depth), filled = bytes.slice(0, rows, 0, padded);
    if (padded > segment.depth) core.vfill(filled, 0);
    const Tensor codes = reader.read(row, rows, segment.begin, segment.depth);
    if (to.weight.codes.dtype == DType::u4) {
      core.vcast(part, codes);
      core.vscalar(VectorOp::sub, part, part, 8.0f);
    } else {
      core.vscalar(VectorOp::bit_xor, part, as(codes, DType::i8), std::int32_t{-128});
    }
    reader.release();
    core.vpack_nz(out.acquire().slice(0, rows, 0, padded), filled);
    out.commit();
    store_blocks(core, to.codes, out.wait().slice(0, rows, 0, padded), row, segment.first);
    out.release();
  }
}

// Scales, and offsets = -zero scale where zeros are given, in f32, a row for each group.
void make_scales(Core& core, const W4Int8& to) {
  const W4Weight& w = to.weight;
  const RowSource& other = w.zeros_or_offsets();
  const bool zeros = w.zeros.count > 0, more = w.shifts();
  const index groups = to.scales.rows(), at_once = std::min<index>(groups, 64),
              panels = ceil_div(w.codes.count, panel_rows);
  const Shape shape{at_once, panel_rows};
  const auto form = [&](const RowSource& source) {
    return TileForm{"scales", Space::vector, source.count > 0 ? shape : Shape{1, 2}, source.dtype};
  };
  auto in = core.ring<2>("of groups", {form(w.scales), form(other)}, {2, Pipe::load_vector, Pipe::vector});
  auto out = core.ring<2>("in f32", {{{"scales", Space::vector, shape}, {"offsets", Space::vector, shape}}},
                          {2, Pipe::vector, Pipe::store});
  const Chain chain = core.chain(Pipe::vector);
  const index across = ceil_div(groups, at_once);
  for (index i = core.vector_worker(); i < panels * across; i += core.vector_workers()) {
    const index panel = i / across, first = i % across * at_once, count = std::min(at_once, groups - first);
    const auto window = [&](const Tensor& tile) { return tile.slice(0, count, 0, panel_rows); };
    const auto loaded = in.acquire();
    core.copy(by_axes(window(loaded[0])), w.scales.panels.at(0, panel).slice(0, first, count));
    if (more) core.copy(by_axes(window(loaded[1])), other.panels.at(0, panel).slice(0, first, count));
    in.commit();
    const auto from = in.wait();
    const auto made = out.acquire();
    core.vcast(window(made[0]), window(from[0]));
    if (more) core.vcast(window(made[1]), window(from[1]));
    if (zeros) {
      core.vbinary(VectorOp::mul, window(made[1]), window(made[1]), window(made[0]));
      core.vscalar(VectorOp::mul, window(made[1]), window(made[1]), -1.0f);
    }
    in.release();
    out.commit();
    const auto done = out.wait();
    core.copy(to.scales.slice(first, count, panel * panel_rows, panel_rows), window(done[0]));
    if (more) core.copy(to.offsets.slice(first, count, panel * panel_rows, panel_rows), window(done[1]));
    out.release();
  }
  core.barrier_all();
}

}  // namespace

std::vector<W4Segment> w4_segments(index slots, index group, index block) {
  std::vector<W4Segment> segments;
  index first = 0;
  for (index s = 0, end = 0; s < slots; s = end) {
    end = std::min({slots, (s / group + 1) * group, (s / longest_segment + 1) * longest_segment});
    segments.push_back({s, end - s, first, s / group});
    first += round_up(end - s, block);
  }
  return segments;
}

W4Int8 w4_int8(GlobalMemory& memory, const RowSource& x, const W4Weight& weight) {
  const index block = memory.device().fractal_block(DType::i8), m = x.count, n = weight.codes.count;
  W4Int8 op{.x = x,
            .weight = weight,
            .segments = w4_segments(x.depth, weight.group, block),
            .bytes = {},
            .codes = {},
            .steps = {},
            .sums = {},
            .scales = {},
            .offsets = {},
            .bias = {},
            .y = {}};
  const index depth = op.segments.back().first + round_up(op.segments.back().depth, block);
  const auto segments = static_cast<index>(op.segments.size()), groups = weight.scales.depth;
  op.bytes = blocked_operand(memory, "bytes of x", m, depth, DType::i8);
  op.codes = blocked_operand(memory, "codes", n, depth, DType::i8);
  op.steps = memory.workspace("steps", {segments, m}, DType::f32);
  op.sums = memory.workspace("sums of x", {segments, m}, DType::f32);
  op.scales = memory.workspace("scales in f32", {groups, round_up(n, panel_rows)}, DType::f32);
  if (weight.shifts()) op.offsets = memory.workspace("offsets in f32", {groups, round_up(n, panel_rows)}, DType::f32);
  return op;
}

void make_w4_int8(Core& core, const W4Int8& to) {
  make_bytes(core, to);
  make_codes(core, to);
  make_scales(core, to);
}

}  // namespace inlay::npu
