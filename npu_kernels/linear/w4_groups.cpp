#include "npu_kernels/linear/w4_groups.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "npu_kernels/backend/row_partition.hpp"
#include "npu_kernels/linear/w4_rows.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

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
  return w4_slots_at_once(device, op.plan.tiles.chunk_k, 2 * panels_ahead * 4 * panel_rows / 8 * 4);
}

// Where staging is the vector unit's memory: fewer rows at once, then shorter chunks, or fewer columns where rows stay,
// until the epilogue fits beside them.
void make_room_for_epilogue(const Device& device, W4Groups& op) {
  if (!stages_for_vector(device)) return;
  ProductTiles& t = op.plan.tiles;
  const auto all = static_cast<index>(device.memory(Space::vector).bytes);
  const MatrixRate* rate = device.rate(DType::f16, DType::f32);
  const index block = std::max<index>(device.fractal_block(DType::f16), rate->k);
  const auto fits = [&] {
    const index codes =
        op.codes.blocks.blocked() ? 0 : W4Codes::bytes(device, op.weight, codes_at_once(device, op), panels_ahead);
    return staged_bytes(device, op.plan.products, t) + W4GroupEpilogue::bytes(device, op) + codes <= all - all / 64;
  };
  while (!fits() && t.vector_m > op.plan.products.row_unit) t.vector_m -= op.plan.products.row_unit;
  while (!fits() && !t.keeps && t.chunk_k > block) t.chunk_k = round_up(t.chunk_k / 2, block);
  t.feed_k = std::min(t.feed_k, t.chunk_k);
  t.step_k = std::min(t.step_k, t.chunk_k);
  const index columns = column_unit(*rate);
  while (!fits() && t.keeps && t.block_n == t.sum_n && t.sum_n > columns) t.block_n = t.sum_n -= columns;
}

}  // namespace

W4Groups w4_groups(GlobalMemory& memory, const RowSource& x, const W4Weight& weight, const LinearResult& result,
                   bool bytes) {
  const Device& device = memory.device();
  const index block = device.fractal_block(DType::f16), n = weight.codes.count, m = x.count;
  W4Groups op{.x = x, .weight = weight, .bytes = bytes, .group = weight.group, .result = result};
  if (bytes) {
    op.group = weight.scales.depth <= 1 ? longest_segment : std::gcd(weight.group, longest_segment);
    op.floats = x;
    op.x.dtype = DType::f16;
    op.x.rows = by_axes(memory.workspace("bytes of x", {m, x.depth}, DType::f16));
  }
  op.halves.source = op.x;
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
  op.plan.products = {.left = {op.left},
                      .right = {{.rows = n, .depth = x.depth, .dtype = DType::f16}},
                      .sum = DType::f32,
                      .segments = {},
                      .row_unit = op.spread * op.parts,
                      .makes_room = true};
  for (index k = 0; k < std::max<index>(1, x.depth); k += op.slots_of_product())
    op.plan.products.segments.push_back({k, std::min(op.slots_of_product(), x.depth - k)});
  op.plan.products.source_bits = bits(weight.codes.dtype);
  op.codes = laid_out(memory, "codes", codes_as_they_are(weight, op.less_middle()), op.plan.products);
  op.plan.tiles = product_tiles(device, memory.cores(), op.plan.products, op.codes.made);
  make_room_for_epilogue(device, op);
  op.codes.depth_at_once = codes_at_once(device, op);
  if (op.codes.stored()) {
    const index room = static_cast<index>(device.memory(Space::vector).bytes) - W4GroupEpilogue::bytes(device, op);
    op.plan.tiles.stored_k = std::min(op.plan.tiles.stored_k, W4Codes::stored_slots_in(device, weight, room));
  }
  if (op.spread > 1 && !op.codes.blocks.blocked() && op.plan.tiles.block_m >= op.left.rows)
    op.left.blocks = {};
  else if (op.spread > 1)
    op.left = blocked_operand(memory, "spread rows of x", op.left.rows, x.depth, DType::f16);
  op.plan.products.left = {op.left};
  op.plan.accumulator = accumulator_workspace(memory, op.plan.products, op.plan.tiles);
  return op;
}

void make_w4_operands(Core& core, const W4Groups& op) {
  const bool spread = op.spread > 1 && op.left.blocked();
  if (op.bytes) {
    make_bytes(core, op);
    core.sync_all();
  }
  make_halves(core, op.halves);
  lay_out_before(core, op.codes);
  const bool sums = op.shifts() && !op.bytes;
  if (spread || sums) core.sync_all();
  if (sums) make_sums(core, op);
  if (spread) store_spread_rows(core, op);
}

void multiply_w4_groups(Core& core, const W4Groups& op) {
  if (op.x.depth > 0) make_w4_operands(core, op);
  Scratch scratch(core);
  W4GroupEpilogue epilogue(core, scratch, op);
  std::optional<SpreadRows> rows;
  if (!op.left.blocked()) rows.emplace(core, scratch, op);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  multiply(core, scratch, op.codes, op.plan, std::ref(epilogue), op.x.depth > 0,
           rows ? MakeLeft(std::ref(*rows)) : MakeLeft());
}

}  // namespace inlay::npu
