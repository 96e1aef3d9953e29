#include "npu_kernels/attention/plan.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

constexpr index worth_a_product = 16;  // rows of the matrix unit: fewer take as long
constexpr index block_keys = 32;       // of the cache's blocks: whole ones, of any matrix unit

// The vector units pack K and V where a decode step's loads, which bound it, would wait for the pass; they transpose a
// prompt's V where the matrix unit, for which several products read each part, would do it in each.
void choose_repack(const Device& device, const AttentionCall& p, AttentionPlan& plan) {
  if (!device.feeds_are_views() || !device.same_memory(Space::staging, Space::vector)) return;
  if (!p.chunk_invariant && device.path(Space::global, Space::staging)->nd2nz_extra() > 0)
    plan.k = plan.v = Repack::by_vector;
  if (p.chunk_invariant && device.turns(false) && device.rate(DType::f16, DType::f32)->turn_cycles > 0)
    plan.v = Repack::transposed;
}

Numbers plan_numbers(const Device& device, const AttentionCall& problem, NpuActivations activations) {
  const bool exact = activations == NpuActivations::exact, f16_q = problem.q.dtype == DType::f16;
  Numbers numbers;
  numbers.q_pieces = exact && !f16_q ? 2 : 1;
  numbers.weight_pieces = exact ? 2 : 1;
  const float scale = problem.scale * problem.k.factor;
  const bool plain = !problem.biased() && problem.softcap == 0 && scale > 0;
  numbers.f16_scores = !exact && problem.chunk_invariant && plain && device.drain(DType::f32, DType::f16) != nullptr;
  if (numbers.f16_scores && !drains_to_vector(device)) numbers.products = DType::f16;
  const DrainForm* form = device.drain(DType::f32, numbers.f16_scores ? DType::f16 : DType::f32);
  if (form != nullptr && form->scales != DrainScales::none) numbers.drain_scale = scale;
  numbers.score_scale = scale / numbers.drain_scale;
  if (numbers.f16_scores && f16_q) numbers.weight_scale = numbers.score_scale;
  return numbers;
}

// Units of `most` rows at most, and the tiles for them.
std::pair<AttentionPlan, std::vector<QueryTile>> of_rows(const Device& device, AttentionCall& problem, index most,
                                                         const AttentionPlan& numbers) {
  index rows = 1;
  for (const AttentionSequence& s : problem.sequences)
    rows = std::max(rows, std::min(most, s.queries * problem.group()));
  std::pair<AttentionPlan, std::vector<QueryTile>> planned{numbers,
                                                           units_of(problem, problem.chunk_invariant ? most : rows)};
  problem.hides = hides(problem, planned.second);
  planned.first.max_rows = most;
  planned.first.tiles = plan_tiles(device, problem, planned.second, planned.first);
  return planned;
}

// Tokens of K or V that a vector unit makes blocks of at a time: two tiles of rows and two of blocks are its memory's.
// None: it has no room for them.
index blocks_at_once(const Device& device, const AttentionCall& problem) {
  constexpr index longest = 128;
  const index dim = std::max(problem.k.dim, problem.v.dim);
  const index row = columns_of_lines(device, dim) + round_up(dim, device.fractal_block(DType::f16));
  const index of_step = 2 * row * round_up(block_keys, device.matrix.m_granule) * byte_size(DType::f16, 1);
  return std::min(longest, static_cast<index>(device.memory(Space::vector).bytes) / of_step * block_keys);
}

// Do K and V as blocks of the matrix unit's pay, made once? Where the way into staging is slow to change rows into
// blocks, and so many units of a prompt load each tile that the vector units do it before. In f32 the softmax is longer
// than the loads.
bool blocks_pay(const Device& device, const AttentionCall& problem, const std::vector<QueryTile>& units,
                const AttentionPlan& plan) {
  // Loads that a tile's blocks must spare: to make them takes a load, a store, and all units wait for it.
  constexpr double spared = 6;
  const double extra = device.path(Space::global, Space::staging)->nd2nz_extra();
  if (!plan.numbers.f16_scores || plan.v == Repack::transposed || extra <= 0) return false;
  if (blocks_at_once(device, problem) == 0) return false;
  index seen = 0, loaded = 0;
  for (const AttentionSequence& s : problem.sequences) seen += seen_keys(problem, s) * problem.kv_heads();
  for (const QueryTile& unit : units) loaded += std::max<index>(0, unit.end - unit.begin);
  return static_cast<double>(loaded) * extra >= spared * static_cast<double>(seen);
}

CacheBlocks cache_blocks(GlobalMemory& memory, const AttentionCall& problem) {
  CacheBlocks result;
  result.tokens = blocks_at_once(memory.device(), problem);
  for (const AttentionSequence& s : problem.sequences) {
    result.first.push_back(result.keys);
    result.keys += round_up(seen_keys(problem, s), block_keys);
  }
  const index block = memory.device().fractal_block(DType::f16);
  const auto all = [&](const char* name, index dim) {
    Tensor rows = memory.workspace(name, {result.keys * problem.kv_heads(), round_up(dim, block)}, DType::f16);
    rows.block = block;
    return rows;
  };
  result.k = all("k in blocks", problem.k.dim), result.v = all("v in blocks", problem.v.dim);
  return result;
}

// A prompt's units in as few rows as keep the cores busy: of two heads of 256 rows 2 cores of 24 would work. The tiles
// are those of most rows, whatever a unit has of them, so that no bit depends on it.
std::vector<QueryTile> cut_for_cores(const AttentionCall& problem, std::vector<QueryTile> units,
                                     const AttentionPlan& plan, std::uint32_t cores) {
  constexpr std::size_t many = 8;     // units of a core, which then end together
  constexpr double worth_it = 1.125;  // what is loaded and set up more often is not counted whole
  const index step = 2 * worth_a_product;
  if (units.size() >= many * cores) return units;
  index least = longest_share(units, cores);
  for (index rows = (plan.max_rows - 1) / step * step; rows > 0; rows -= step) {
    std::vector<QueryTile> cut = units_of(problem, rows);
    if (const index longest = longest_share(cut, cores);
        worth_it * static_cast<double>(longest) < static_cast<double>(least))
      units = std::move(cut), least = longest;
  }
  return units;
}

}  // namespace

Tensor CacheBlocks::of(const Tensor& all, const AttentionCall& problem, index sequence, index kv_head,
                       index dim) const {
  const AttentionSequence& s = problem.sequences[static_cast<std::size_t>(sequence)];
  const index rows = round_up(seen_keys(problem, s), block_keys);
  Tensor blocks = all.row_slice(kv_head * keys + first[static_cast<std::size_t>(sequence)], rows);
  blocks.layout = Layout::nz;
  blocks.block = all.block;
  blocks.pitch = rows;
  blocks.shape.columns = dim;
  return blocks;
}

index seen_keys(const AttentionCall& problem, const AttentionSequence& s) {
  return s.queries > 0 ? std::max<index>(0, problem.visible(s, s.queries - 1).end) : 0;
}

bool hides(const AttentionCall& p, const std::vector<QueryTile>& units) {
  if (p.bias.present() || p.mask.present() || p.packed_mask.present() || (p.chunk_invariant && p.window_left >= 0))
    return true;
  return std::any_of(units.begin(), units.end(), [&](const QueryTile& unit) {
    const auto [first, last] = p.ends(unit);
    return first.begin != last.begin || first.end != last.end;
  });
}

bool fits_matrix(const Device& device, const AttentionCall& p) {
  if (p.quantized() || device.rate(DType::f16, DType::f32) == nullptr) return false;
  if (p.block_table.present() && (p.block_size() % 2 != 0 || p.window_left >= 0))
    return false;  // odd rows of a fractal tile
  for (const Cached* cached : {&p.bound.k, &p.bound.v})
    for (const NdTensor& view : cached->views)
      if (view.first.dtype != DType::f16 || view.extent(3) > 1 || (view.extent(1) > 1 && view.stride(1) < cached->dim))
        return false;
  return p.q.extents[2] <= 1 || p.q.strides[2] >= p.k.dim;
}

bool rows_are_aligned(const Device& device, index heads) {
  return heads * device.fractal_block(DType::f16) * 2 % device.memory(Space::staging).align == 0;
}

bool loads_as_it_is(const Device& device, const AttentionCall& problem) {
  if (problem.q.dtype != DType::f16) return false;
  const bool one = std::all_of(problem.sequences.begin(), problem.sequences.end(),
                               [](const AttentionSequence& s) { return s.queries <= 1; });
  return one || problem.k.dim % device.fractal_block(DType::f16) == 0 ||
         (!problem.chunk_invariant && rows_are_aligned(device, problem.group()));
}

index columns_of_lines(const Device& device, index dim) {
  return round_up(dim, std::max<index>(device.memory(Space::vector).align / byte_size(DType::f16, 1), 2));
}

// By as many rows as serve best: the more of them, the seldomer K and V are loaded, the longer the tiles, the seldomer
// sums are rescaled; of equal ones the fewer, which cores share better. Of a prompt neither depends on its length, as
// its bits do on the tiles.
std::pair<AttentionPlan, std::vector<QueryTile>> plan_matrix(const Device& device, AttentionCall& problem,
                                                             NpuActivations activations, std::uint32_t cores) {
  AttentionPlan numbers;
  numbers.numbers = plan_numbers(device, problem, activations);
  numbers.q_as_it_is = loads_as_it_is(device, problem);
  numbers.nz_weights = problem.chunk_invariant && !drains_to_vector(device) && !left_is_vectors(device);
  choose_repack(device, problem, numbers);
  std::pair<AttentionPlan, std::vector<QueryTile>> best;
  if (!problem.chunk_invariant) {
    constexpr index long_enough = 128;
    for (const index most : {index{128}, index{64}, index{32}}) {
      best = of_rows(device, problem, most, numbers);
      if (best.first.tiles.tokens >= long_enough) break;
    }
    return best;
  }
  double least = 0;
  for (const index most : {index{256}, index{192}, index{128}, index{64}, index{32}}) {
    auto planned = of_rows(device, problem, most, numbers);
    const index tokens = planned.first.tiles.tokens;
    if (tokens == 0) continue;
    const double loads = 2.0 * static_cast<double>(problem.k.dim + problem.v.dim) / static_cast<double>(most);
    const double bytes = loads + 8.0 * static_cast<double>(problem.v.dim) / static_cast<double>(tokens);
    if (least == 0 || bytes <= least) best = std::move(planned), least = bytes;
  }
  if (best.first.tiles.tokens > 0) best.second = cut_for_cores(problem, std::move(best.second), best.first, cores);
  problem.hides = hides(problem, best.second);
  return best;
}

void add_workspace(GlobalMemory& memory, const AttentionCall& p, const std::vector<QueryTile>& units,
                   AttentionPlan& plan) {
  const Tiles& t = plan.tiles;
  const Device& device = memory.device();
  constexpr index ahead = 2;  // tiles
  const index in_flight = static_cast<index>(memory.cores()) * t.rows;
  const bool left = left_is_vectors(device);
  const index q_pieces = plan.numbers.q_pieces, weight_pieces = plan.numbers.weight_pieces;
  auto& space = plan.workspace;
  if (!plan.q_as_it_is && !left)
    space.q = memory.workspace("q in pieces", {in_flight * ahead * q_pieces, p.k.dim}, DType::f16);
  if (!drains_to_vector(device)) {
    const DType scores = plan.numbers.f16_scores ? DType::f16 : DType::f32;
    space.scores = memory.workspace("scores", {in_flight * ahead, t.tokens}, scores);
    space.products = memory.workspace("products", {in_flight * ahead, p.v.dim}, plan.numbers.products);
  }
  if (!left)
    space.weights = memory.workspace("weights", {in_flight * weights_ahead * weight_pieces, t.tokens}, DType::f16);
  if (blocks_pay(device, p, units, plan)) plan.cache = cache_blocks(memory, p);
}

}  // namespace inlay::npu
