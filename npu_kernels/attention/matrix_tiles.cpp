#include "npu_kernels/attention/matrix_tiles.hpp"

#include <algorithm>

#include "npu_kernels/attention/unit_handover.hpp"
#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

KeyWork part_of(const Core& core, const WorkUnit& unit, index number) {
  KeyWork work{&unit, number, {}, unit, {}, false, false};
  WorkUnit& mine = work.mine_unit;
  if (unit.queries > 1) {
    const RowRange queries = my_rows(core, unit.queries);
    work.mine = {queries.first * unit.heads, queries.count * unit.heads};
    mine.query += queries.first, mine.queries = queries.count;
  } else {
    work.mine = my_rows(core, unit.heads);
    mine.head += work.mine.first, mine.heads = work.mine.count;
  }
  return work;
}

std::vector<KeyWork> key_works(const Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                               index tokens) {
  std::vector<KeyWork> works;
  for (index i = core.block_idx(); i < static_cast<index>(units.size()); i += core.block_dim()) {
    KeyWork work = part_of(core, units[static_cast<std::size_t>(i)], i);
    const std::vector<KeyTile> tiles = key_tiles(problem, *work.unit, tokens);
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      work.tile = tiles[t];
      work.first = t == 0, work.last = t + 1 == tiles.size();
      works.push_back(work);
    }
  }
  return works;
}

bool fits_matrix(const Device& device, const AttentionProblem& p) {
  if (p.quantized() || device.rate(DType::f16, DType::f32) == nullptr) return false;
  if (p.block_size > 0 && (p.block_size % 2 != 0 || p.window_left >= 0)) return false;  // odd rows of a fractal tile
  for (const Cached* cached : {&p.k, &p.v})
    for (const NdTensor& view : cached->views)
      if (view.first.dtype != DType::f16 || view.extent(3) > 1 || (view.extent(1) > 1 && view.stride(1) < cached->dim))
        return false;
  return p.q.extent(2) <= 1 || p.q.stride(2) >= p.k.dim;
}

index sharing_vectors(const Device& device, const MatrixPlan& plan) {
  const index all = device.vector_units();
  return plan.vectors == 0 ? all : std::min<index>(all, plan.vectors);
}

MatrixTiles matrix_tiles(const Device& device, const AttentionProblem& p, const std::vector<WorkUnit>& units,
                         const MatrixPlan& plan) {
  const index q_pieces = plan.q_pieces, weight_pieces = plan.weight_pieces, share = sharing_vectors(device, plan);
  MatrixTiles t{};
  if (units.empty()) return t;  // no query: nothing for the matrix unit
  const auto hold = [&](index queries, index heads) {
    t.rows = std::max(t.rows, round_up(queries * heads, 2));
    t.most = std::max(t.most, queries > 1 ? ceil_div(queries, share) * heads : ceil_div(heads, share));
  };
  for (const WorkUnit& unit : units) hold(unit.queries, unit.heads);
  if (const index heads = std::min(p.group(), plan.most_rows); p.by_chunks)
    hold(std::max<index>(1, plan.most_rows / heads), heads);
  const index rows = t.rows, most = t.most;
  const auto bytes = [&](Space space) { return static_cast<index>(device.memory(space).bytes); };
  const bool views = device.feeds_are_views();
  const MatrixRate* rate = device.rate(DType::f16, DType::f32);
  constexpr index f16_bytes = 2, f32_bytes = 4;
  const index unit = std::max<index>({rate->n, rate->k, 32});
  const index padded = round_up(rows, std::max<index>(device.matrix.m_granule, 2));
  const index dim = round_up(p.k.dim, unit), v_dim = round_up(p.v.dim, unit), widest = std::max(dim, v_dim);

  const auto sums_of = [&](index of) { return bytes(Space::accumulator) / 2 / (of * f32_bytes) / unit * unit; };
  t.product_rows = rows;
  while (t.product_rows > unit && sums_of(t.product_rows) == 0) t.product_rows = round_up(t.product_rows / 2, unit);
  const index sums = sums_of(t.product_rows);
  index side = views ? std::max(sums, widest) : unit;  // one ring of tiles serves K^T and V
  while (!views && 2 * (side + unit) * (side + unit) * f16_bytes <= bytes(Space::right)) side += unit;
  t.score_columns = std::min(sums, side);
  t.value_columns = std::min({sums, side, v_dim});
  if (t.score_columns == 0) return t;

  const index staged = 2 * (dim + v_dim) * f16_bytes + (views ? 0 : 2 * weight_pieces * padded * f16_bytes);
  // Seen and by one rule; bias and distances in f32, and what is loaded.
  const bool biased = p.bias.present() || p.slopes.present();
  const index rules = (p.hides || p.by_chunks ? 2 : 0) + f32_bytes * ((biased ? 2 : 0) + (p.bias.present() ? 1 : 0)) +
                      (p.mask.present() || p.packed.present() ? 1 : 0);
  const index vector =
      std::max<index>(most, 2) * (2 * f32_bytes + (views ? weights_ahead : 2) * weight_pieces * f16_bytes +
                                  (weight_pieces > 1 ? f32_bytes : 0) + rules) +
      6 * f32_bytes;
  // Sum, products, out and its coefficients; columns, and those of transfers.
  const index of_vector = std::max<index>(most, 2) * (v_dim * f32_bytes * (p.to.out_scale.present() ? 6 : 4) + 96 +
                                                      6 * index{device.memory(Space::vector).align}) +
                          8192;
  const index of_staging = 2 * q_pieces * padded * dim * f16_bytes;
  const index room = bytes(Space::vector) - of_vector, staging = bytes(Space::staging) - of_staging;
  const bool shared = device.same_memory(Space::staging, Space::vector);
  const index fit = shared ? (staging - of_vector) / (staged + vector) : std::min(staging / staged, room / vector);
  index longest = 1;
  for (const Sequence& s : p.sequences) longest = std::max(longest, s.keys);
  const index range = p.by_chunks ? 4096 : ceil_div(longest, p.splits);
  // Eighths: a pipeline of four stages fills quickly. But a step should not be over before a flag of another stream
  // comes.
  const double flight = device.sync.stream_cycles * device.dram_bytes_per_cycle_core;
  const index in_flight = static_cast<index>(flight) / ((dim + v_dim) * f16_bytes);
  const index wanted = std::min(fit * 7 / 8, std::max({ceil_div(range, 8), in_flight, unit}));
  t.tokens = std::max<index>(0, wanted / unit * unit);
  if (t.tokens > t.score_columns) t.tokens = t.tokens / t.score_columns * t.score_columns;
  t.score_columns = std::min(t.score_columns, t.tokens);
  t.depth = views ? std::max(dim, t.tokens) : side;
  return t;
}

void add_workspace(GlobalMemory& memory, const AttentionProblem& p, MatrixPlan& plan) {
  const MatrixTiles& t = plan.tiles;
  const Device& device = memory.device();
  const index outer = p.q.extent(0), rows = p.to.out.extent(1), heads = p.heads();
  const index in_flight = static_cast<index>(memory.cores()) * t.rows;
  if (!plan.q_as_it_is)
    plan.q = memory.workspace("q in pieces", {plan.q_pieces * outer * rows * heads, p.k.dim}, DType::f16);
  if (p.q.first.dtype != DType::f16) {
    const Tensor factors = memory.workspace("factors of q", {outer * rows * heads, 1}, DType::f32);
    plan.factors = by_axes(factors).at(1, 0).split(0, heads).split(0, rows);
  }
  if (device.path(Space::accumulator, Space::vector) == nullptr) {
    plan.scores = memory.workspace("scores", {in_flight * 2, t.tokens}, DType::f32);
    plan.products = memory.workspace("products", {in_flight * 2, p.v.dim}, DType::f32);
  }
  if (!device.feeds_are_views() || !device.same_memory(Space::vector, Space::left))
    plan.weights = memory.workspace("weights", {in_flight * weights_ahead * plan.weight_pieces, t.tokens}, DType::f16);
}

}  // namespace inlay::npu
