#include "npu_kernels/attention/matrix_tiles.hpp"

#include <algorithm>
#include <numeric>

#include "npu_kernels/attention/handover.hpp"
#include "npu_kernels/attention/score_rules.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

KeyWork part_of(const Core& core, const WorkUnit& unit, index number) {
  KeyWork work{&unit, number, 0, {}, unit, {}, false, false, false};
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

namespace {

// Rows of one grade must be those of one vector unit.
bool may_grade(const MatrixTiles& tiles, const WorkUnit& unit, index vectors) {
  if (unit.queries <= 1 || tiles.graded == 0) return false;
  return vectors == 1 || ceil_div(unit.queries, vectors) * unit.heads % tiles.graded == 0;
}

}  // namespace

std::vector<KeyWork> key_works(const Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                               const MatrixPlan& plan) {
  std::vector<KeyWork> works;
  index turn = 0;
  for (const index i : plan.shares[core.block_idx()]) {
    KeyWork work = part_of(core, units[static_cast<std::size_t>(i)], i);
    const std::vector<KeyTile> tiles = key_tiles(problem, *work.unit, plan.tiles.tokens);
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      work.turn = turn;
      work.tile = tiles[t];
      work.first = t == 0, work.last = t + 1 == tiles.size();
      work.graded = may_grade(plan.tiles, *work.unit, core.vector_dim());
      works.push_back(work);
    }
    turn += tiles.empty() ? 0 : 1;
  }
  return works;
}

index keys_of(const AttentionProblem& problem, const MatrixTiles& tiles, const KeyWork& work, index row) {
  if (!work.graded) return work.tile.count;
  const WorkUnit& unit = *work.unit;
  const index last = std::min((row / tiles.graded + 1) * tiles.graded, unit.rows()) - 1;
  const Sequence& s = problem.sequences[static_cast<std::size_t>(unit.sequence)];
  const KeyRange seen = problem.visible(s, unit.query + last / unit.heads);
  return std::clamp<index>(seen.end - work.tile.first, 1, work.tile.count);  // a hidden one rather than none
}

index hidden_columns(const Device& device, const AttentionProblem& problem, const MatrixTiles& tiles) {
  if (!one_rule(problem) || problem.slopes.present() || problem.softcap > 0) return tiles.tokens;
  const index queries = ceil_div(tiles.rows, std::min(problem.group(), tiles.rows));
  return std::min(tiles.tokens, queries + 2 * index{device.vector.align});
}

std::vector<RowBlock> row_blocks(const AttentionProblem& problem, const MatrixTiles& tiles, const KeyWork& work) {
  std::vector<RowBlock> blocks;
  const WorkUnit& mine = work.mine_unit;
  for (index first = 0; first < work.mine.count; first += tiles.block) {
    RowBlock block{first, std::min(tiles.block, work.mine.count - first), 0, mine};
    block.keys = keys_of(problem, tiles, work, work.mine.first + first);
    if (mine.queries > 1)
      block.unit.query += first / mine.heads, block.unit.queries = block.rows / mine.heads;
    else
      block.unit.head += first, block.unit.heads = block.rows;
    blocks.push_back(block);
  }
  return blocks;
}

std::vector<std::vector<index>> shares_of(const std::vector<WorkUnit>& units, std::uint32_t cores) {
  constexpr index of_a_tile = 64;  // rows that the way of K and V counts for
  const auto cost = [&](index i) {
    const WorkUnit& unit = units[static_cast<std::size_t>(i)];
    return std::max<index>(0, unit.end - unit.begin) * (unit.rows() + of_a_tile);
  };
  std::vector<index> order(units.size());
  std::iota(order.begin(), order.end(), index{0});
  std::stable_sort(order.begin(), order.end(), [&](index a, index b) { return cost(a) > cost(b); });
  std::vector<std::vector<index>> shares(cores);
  std::vector<index> load(cores, 0);
  for (const index i : order) {
    const auto least = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    shares[least].push_back(i);
    load[least] += cost(i) + 1;
  }
  // What one unit has of K and V the next one may find there.
  const auto same_keys = [&](index i) {
    const WorkUnit& unit = units[static_cast<std::size_t>(i)];
    return std::pair{unit.sequence, unit.kv_head};
  };
  for (std::vector<index>& share : shares)
    std::stable_sort(share.begin(), share.end(), [&](index a, index b) { return same_keys(a) < same_keys(b); });
  return shares;
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

bool vector_makes_blocks(const Device& device, const AttentionProblem& p) {
  return !p.by_chunks && device.feeds_are_views() && device.same_memory(Space::staging, Space::vector) &&
         device.path(Space::global, Space::staging)->nd2nz_extra() > 0;
}

bool vector_turns_values(const Device& device, const AttentionProblem& p) {
  return p.by_chunks && device.feeds_are_views() && device.same_memory(Space::staging, Space::vector) &&
         device.turns(false) && device.rate(DType::f16, DType::f32)->turn_cycles > 0;
}

index columns_of_lines(const Device& device, index dim) {
  return round_up(dim, std::max<index>(device.memory(Space::vector).align / byte_size(DType::f16, 1), 2));
}

namespace {

constexpr index f16_bytes = 2, f32_bytes = 4;
constexpr index worth_a_verb = 16;  // rows of a block: with eight, a verb's head takes as long as they do

// Rows of the tiles, whatever the lengths are where bits must not depend on them.
void hold_rows(const Device& device, const AttentionProblem& p, const std::vector<WorkUnit>& units,
               const MatrixPlan& plan, MatrixTiles& t) {
  const index share = device.vector_units();
  const auto hold = [&](index queries, index heads) {
    t.rows = std::max(t.rows, round_up(queries * heads, 2));
    t.most = std::max(t.most, queries > 1 ? ceil_div(queries, share) * heads : ceil_div(heads, share));
  };
  for (const WorkUnit& unit : units) hold(unit.queries, unit.heads);
  if (const index heads = std::min(p.group(), plan.most_rows); p.by_chunks)
    hold(std::max<index>(1, plan.most_rows / heads), heads);
}

// One product of twice the rows takes less than half as long again as one, and its longer drain keeps no product
// waiting. Not of a prompt, whose rows are many.
bool stacking_pays(const Device& device, const AttentionProblem& p, index rows) {
  const bool views = device.feeds_are_views() && device.same_memory(Space::vector, Space::left);
  const auto queue = [&](Pipe pipe) { return device.queue_of[static_cast<std::size_t>(pipe)]; };
  if (p.by_chunks || !views || !drains_to_vector(device) || queue(Pipe::drain) == queue(Pipe::matrix)) return false;
  const auto cycles = [&](index m) {
    constexpr std::uint64_t depth = 256;
    return matrix_cycles(device.matrix, *device.rate(DType::f16, DType::f32), static_cast<std::uint64_t>(m),
                         static_cast<std::uint64_t>(p.v.dim), depth, false);
  };
  return p.v.dim > 0 && cycles(2 * rows) < 1.5 * cycles(rows);
}

// What the tiles of an accumulator, left and right are. No columns: nothing fits.
void shape_products(const Device& device, const AttentionProblem& p, const MatrixPlan& plan, MatrixTiles& t) {
  const auto bytes = [&](Space space) { return static_cast<index>(device.memory(space).bytes); };
  const bool views = device.feeds_are_views();
  const MatrixRate* rate = device.rate(DType::f16, DType::f32);
  const index unit = std::max<index>({rate->n, rate->k, 32});
  const index dim = round_up(p.k.dim, unit), v_dim = round_up(p.v.dim, unit), widest = std::max(dim, v_dim);
  const auto queue = [&](Pipe pipe) { return device.queue_of[static_cast<std::size_t>(pipe)]; };
  t.sums = queue(Pipe::drain) == queue(Pipe::matrix) ? 1 : 2;  // one queue works on one of them at a time
  index side = unit;                                           // one ring of tiles serves K^T and V
  while (!views && 2 * (side + unit) * (side + unit) * f16_bytes <= bytes(Space::right)) side += unit;
  const auto sums_of = [&](index of, index granule) {
    return bytes(Space::accumulator) / t.sums / (of * f32_bytes) / granule * granule;
  };
  // The most rows of which there are so many columns at a time: one load of the right operand serves them all.
  const auto most_rows = [&](index granule) {
    const auto fits = [&](index of) {
      return sums_of(of, granule) > 0 && (views || 2 * of * side * f16_bytes <= bytes(Space::left));
    };
    index rows = t.rows;
    while (rows > unit && !fits(rows)) rows = round_up(rows / 2, unit);
    return rows;
  };
  // What is drained must start where the vector unit's memory lets it.
  const index align = drains_to_vector(device) ? index{device.memory(Space::vector).align} : 1;
  const index drained = std::max(unit, align / (plan.narrow ? f16_bytes : f32_bytes));
  t.score_rows = most_rows(drained), t.product_rows = most_rows(unit);
  if (views) side = std::max(sums_of(t.score_rows, drained), widest);
  t.score_columns = std::min(sums_of(t.score_rows, drained), side);
  const bool room = t.product_rows == t.rows && sums_of(2 * t.rows, unit) >= v_dim;
  t.stacked = room && plan.weight_pieces == 2 && stacking_pays(device, p, t.rows);
  t.value_columns = std::min({sums_of(t.sum_rows(), unit), side, v_dim});
  t.depth = side;
}

}  // namespace

MatrixTiles matrix_tiles(const Device& device, const AttentionProblem& p, const std::vector<WorkUnit>& units,
                         const MatrixPlan& plan) {
  MatrixTiles t{};
  if (units.empty()) return t;  // no query: nothing for the matrix unit
  hold_rows(device, p, units, plan, t);
  shape_products(device, p, plan, t);
  if (t.score_columns == 0) return t;

  const auto bytes = [&](Space space) { return static_cast<index>(device.memory(space).bytes); };
  const bool views = device.feeds_are_views(), direct = drains_to_vector(device);
  const MatrixRate* rate = device.rate(DType::f16, DType::f32);
  const index unit = std::max<index>({rate->n, rate->k, 32});
  const index granule = std::max<index>(device.matrix.m_granule, 2), align = device.memory(Space::vector).align;
  const index dim = round_up(p.k.dim, unit), v_dim = round_up(p.v.dim, unit);
  const index padded = round_up(t.rows, granule), products = round_up(t.product_rows, granule);
  const index pieces = plan.weight_pieces, score_bytes = plan.narrow ? f16_bytes : f32_bytes;
  // Where tiles are long, a prompt's K and V come in halves of them.
  t.parts = p.by_chunks && !direct ? 2 : 1;
  // Many, if there are flags for them, as little work waits for each.
  t.products = plan.narrow && !p.to.sinks.present() && !p.mask.present() && !p.packed.present() ? 4 : 2;
  // At a core's end nothing hides a store's latency.
  t.results = plan.narrow ? (plan.q_as_it_is ? 4 : 3) : 2;
  const index staged = 2 * (dim + v_dim) * f16_bytes / t.parts +
                       (views ? 0 : 2 * pieces * products * f16_bytes / t.parts) +
                       (plan.makes_blocks ? 2 * columns_of_lines(device, p.k.dim) * f16_bytes : 0) +
                       (plan.makes_blocks || plan.turns_values ? 2 * columns_of_lines(device, p.v.dim) * f16_bytes : 0);
  const index of_staging = 2 * plan.q_pieces * padded * dim * f16_bytes;

  // Seen and by one rule; bias and distances in f32, and what is loaded.
  const bool biased = p.bias.present() || p.slopes.present();
  const index seen = p.hides || p.by_chunks ? (one_rule(p) ? (biased || p.softcap > 0 ? 1 : 0) : 2) : 0;
  const index rules = seen + f32_bytes * ((biased ? 2 : 0) + (p.bias.present() ? 1 : 0)) +
                      (p.mask.present() || p.packed.present() ? 1 : 0);
  const index row_bytes = (p.packed.present() ? 6 : 1) * f32_bytes;
  const auto of_a_token = [&](index block) {
    const index packed = plan.packed ? round_up(block, granule) : block;
    // Packed ones piece by piece.
    const index weights =
        views ? weights_ahead * t.most * pieces : (plan.packed ? (plan.narrow ? 2 : 3) * packed : 2 * block * pieces);
    return 2 * (direct ? t.most : block) * score_bytes + weights * f16_bytes + block * rules + row_bytes;
  };
  // Sum, products, out and its coefficients; q in pieces; columns, and those of transfers.
  const auto of_vector = [&](index block) {
    const index out_bytes = byte_size(p.to.out.first.dtype, 1);
    const index out = block * v_dim * (p.to.out_scale.present() ? 0 : t.results * out_bytes) +
                      (p.to.out_scale.present() ? t.most * v_dim * 2 * f32_bytes : 0) + block * (t.rows + 64);
    const index q_bytes = byte_size(p.q.first.dtype, 1), wide = p.q.first.dtype == DType::f16 ? 0 : 2 * f32_bytes;
    const index q = plan.q_as_it_is ? 0 : block * dim * (2 * q_bytes + 2 * plan.q_pieces * f16_bytes + wide);
    return t.most * v_dim * f32_bytes + 2 * v_dim * f32_bytes +
           (direct ? (t.stacked ? 4 : 2) * t.most : t.products * block) * v_dim * byte_size(plan.product_type, 1) +
           out + q + t.most * (18 * f32_bytes + (p.slopes.present() ? 2 * align : 0)) + block * 6 * align + 3072;
  };
  const auto fit_of = [&](index block) {
    const index room = bytes(Space::vector) - of_vector(block), staging = bytes(Space::staging) - of_staging;
    const bool shared = device.same_memory(Space::staging, Space::vector);
    return shared ? (staging - of_vector(block)) / (staged + of_a_token(block))
                  : std::min(staging / staged, room / of_a_token(block));
  };
  index longest = 1;
  for (const Sequence& s : p.sequences) longest = std::max(longest, s.keys);
  // Eighths: a pipeline of four stages fills quickly. But a step should not be over before a flag of another stream
  // comes.
  const double flight = device.sync.stream_cycles * device.dram_bytes_per_cycle_core;
  const index in_flight = static_cast<index>(flight) / ((dim + v_dim) * f16_bytes);
  const index range = p.by_chunks ? 4096 : ceil_div(longest, p.splits);
  const index enough = std::max({ceil_div(range, 8), in_flight, unit});

  // Blocks: the largest beside which long tiles fit. Columns of a block's rows start where the vector unit can.
  const index heads = std::min(p.group(), plan.most_rows), aligned = align / score_bytes;
  const index whole_queries = p.by_chunks && plan.most_rows > heads ? heads : 1;
  const index step = std::lcm(whole_queries, std::max<index>(aligned, 8));
  t.block = std::max<index>(t.most, 1);
  index fit = fit_of(t.block);
  const index whole = unit * t.parts;
  for (index rows = direct ? 256 : 64; p.by_chunks && rows >= 8; rows /= 2) {
    const index block = round_up(rows, step);
    if (block >= t.block || (!direct && fit >= enough)) continue;
    if (rows < worth_a_verb && fit >= whole) break;
    if (const index other = fit_of(block); direct || other > fit) t.block = block, fit = other;
    if (direct) break;
  }
  if (const index grade = std::max(t.block, t.product_rows);
      grade < t.rows && grade % t.block == 0 && grade % t.product_rows == 0 && grade % t.score_rows == 0)
    t.graded = grade;
  t.tokens = std::max<index>(0, std::min(plan.narrow || plan.packed ? fit : fit * 7 / 8, enough) / whole * whole);
  if (t.parts == 1 && t.tokens > t.score_columns) t.tokens = t.part() / t.score_columns * t.score_columns * t.parts;
  t.score_columns = std::min(t.score_columns, t.tokens);
  if (views) t.depth = std::max(dim, t.tokens);
  return t;
}

void add_workspace(GlobalMemory& memory, const AttentionProblem& p, MatrixPlan& plan) {
  const MatrixTiles& t = plan.tiles;
  const Device& device = memory.device();
  const index in_flight = static_cast<index>(memory.cores()) * t.rows;
  const bool flat = device.feeds_are_views() && device.same_memory(Space::vector, Space::left);
  if (!plan.q_as_it_is && !flat)
    plan.q = memory.workspace("q in pieces", {in_flight * 2 * plan.q_pieces, p.k.dim}, DType::f16);
  if (!drains_to_vector(device)) {
    const DType scores = plan.narrow ? DType::f16 : DType::f32;
    plan.scores = memory.workspace("scores", {in_flight * scores_ahead, t.tokens}, scores);
    plan.products = memory.workspace("products", {in_flight * scores_ahead, p.v.dim}, plan.product_type);
  }
  if (!flat)
    plan.weights = memory.workspace("weights", {in_flight * weights_ahead * plan.weight_pieces, t.tokens}, DType::f16);
}

}  // namespace inlay::npu
