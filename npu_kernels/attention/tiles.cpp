// How large the tiles of a plan are, so that what is on its way fits into each of the core's memories; and whose they
// are: of which core, of which of its vector units.
#include <algorithm>
#include <numeric>

#include "npu_kernels/attention/plan.hpp"
#include "npu_kernels/attention/softmax.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

constexpr index f16_bytes = 2, f32_bytes = 4;
constexpr index worth_a_verb = 16;  // rows of a block: with eight, a verb's head takes as long as they do

class Sizer {
 public:
  Sizer(const Device& device, const AttentionCall& problem, const AttentionPlan& plan)
      : device_(device),
        p_(problem),
        plan_(plan),
        numbers_(plan.numbers),
        views_(device.feeds_are_views()),
        direct_(drains_to_vector(device)),
        unit_(std::max<index>({device.rate(DType::f16, DType::f32)->n, device.rate(DType::f16, DType::f32)->k, 32})),
        granule_(std::max<index>(device.matrix.m_granule, 2)),
        align_(device.memory(Space::vector).align),
        dim_(round_up(problem.k.dim, unit_)),
        v_dim_(round_up(problem.v.dim, unit_)),
        score_bytes_(plan.numbers.f16_scores ? f16_bytes : f32_bytes) {}

  Tiles size(const std::vector<QueryTile>& units) {
    if (units.empty()) return t_;  // no query: nothing for the matrix unit
    hold_rows(units);
    shape_products();
    if (t_.score_columns == 0) return t_;
    // Where tiles are long, a prompt's K and V come in halves of them.
    t_.parts = p_.chunk_invariant && !direct_ ? 2 : 1;
    // Many, if there are flags for them, as little work waits for each; at a core's end nothing hides a store's
    // latency.
    const bool flags = !p_.sinks.present() && !p_.mask.present() && !p_.packed_mask.present();
    t_.product_blocks = numbers_.f16_scores && flags ? 4 : 2;
    t_.result_blocks = numbers_.f16_scores ? (plan_.q_as_it_is ? 4 : 3) : 2;

    const index enough = enough_tokens(), whole = unit_ * t_.parts;
    const index tokens = choose_block(enough);
    if (const index trim = std::max(t_.block, t_.product_rows);
        trim < t_.rows && trim % t_.block == 0 && trim % t_.product_rows == 0 && trim % t_.score_rows == 0)
      t_.causal_trim = trim;
    const index room = numbers_.f16_scores || plan_.nz_weights ? tokens : tokens * 7 / 8;
    t_.tokens = std::max<index>(0, std::min(room, enough) / whole * whole);
    if (t_.parts == 1 && t_.tokens > t_.score_columns) t_.tokens = t_.tokens / t_.score_columns * t_.score_columns;
    t_.score_columns = std::min(t_.score_columns, t_.tokens);
    if (views_) t_.depth = std::max(dim_, t_.tokens);
    return t_;
  }

 private:
  index bytes(Space space) const { return static_cast<index>(device_.memory(space).bytes); }
  bool same_queue(Pipe a, Pipe b) const {
    return device_.queue_of[static_cast<std::size_t>(a)] == device_.queue_of[static_cast<std::size_t>(b)];
  }

  // Rows of the tiles, whatever the lengths are where bits must not depend on them.
  void hold_rows(const std::vector<QueryTile>& units) {
    const index share = device_.vector_units();
    const auto hold = [&](index queries, index heads) {
      t_.rows = std::max(t_.rows, round_up(queries * heads, 2));
      t_.most = std::max(t_.most, queries > 1 ? ceil_div(queries, share) * heads : ceil_div(heads, share));
    };
    for (const QueryTile& unit : units) hold(unit.queries, unit.heads);
    if (const index heads = std::min(p_.group(), plan_.max_rows); p_.chunk_invariant)
      hold(std::max<index>(1, plan_.max_rows / heads), heads);
  }

  // One product of twice the rows takes less than half as long again as one, and its longer drain keeps no product
  // waiting. Not of a prompt, whose rows are many.
  bool stacking_pays() const {
    if (p_.chunk_invariant || !left_is_vectors(device_) || !direct_ || same_queue(Pipe::drain, Pipe::matrix))
      return false;
    const auto cycles = [&](index rows) {
      constexpr std::uint64_t depth = 256;
      return matrix_cycles(device_.matrix, *device_.rate(DType::f16, DType::f32), static_cast<std::uint64_t>(rows),
                           static_cast<std::uint64_t>(p_.v.dim), depth, false);
    };
    return p_.v.dim > 0 && cycles(2 * t_.rows) < 1.5 * cycles(t_.rows);
  }

  // What the tiles of an accumulator, left and right are. No columns: nothing fits.
  void shape_products() {
    t_.accumulators = same_queue(Pipe::drain, Pipe::matrix) ? 1 : 2;  // one queue works on one of them at a time
    index side = unit_;                                               // one ring of tiles serves K^T and V
    while (!views_ && 2 * (side + unit_) * (side + unit_) * f16_bytes <= bytes(Space::right)) side += unit_;
    const auto sums_of = [&](index rows, index granule) {
      return bytes(Space::accumulator) / t_.accumulators / (rows * f32_bytes) / granule * granule;
    };
    // The most rows of which there are so many columns at a time: one load of the right operand serves them all.
    const auto max_rows = [&](index granule) {
      const auto fits = [&](index rows) {
        return sums_of(rows, granule) > 0 && (views_ || 2 * rows * side * f16_bytes <= bytes(Space::left));
      };
      index rows = t_.rows;
      while (rows > unit_ && !fits(rows)) rows = round_up(rows / 2, unit_);
      return rows;
    };
    // What is drained must start where the vector unit's memory lets it.
    const index drained = std::max(unit_, (direct_ ? align_ : 1) / score_bytes_);
    t_.score_rows = max_rows(drained), t_.product_rows = max_rows(unit_);
    if (views_) side = std::max({sums_of(t_.score_rows, drained), dim_, v_dim_});
    t_.score_columns = std::min(sums_of(t_.score_rows, drained), side);
    const bool room = t_.product_rows == t_.rows && sums_of(2 * t_.rows, unit_) >= v_dim_;
    t_.hi_lo_stacked = room && numbers_.weight_pieces == 2 && stacking_pays();
    t_.value_columns = std::min({sums_of(t_.sum_rows(), unit_), side, v_dim_});
    t_.depth = side;
  }

  // Of a score: seen, and by one rule; bias and distances in f32, and what is loaded.
  index rule_bytes() const {
    const bool biased = p_.biased();
    const index seen = p_.hides || p_.chunk_invariant ? (one_rule(p_) ? (biased || p_.softcap > 0 ? 1 : 0) : 2) : 0;
    return seen + f32_bytes * ((biased ? 2 : 0) + (p_.bias.present() ? 1 : 0)) +
           (p_.mask.present() || p_.packed_mask.present() ? 1 : 0);
  }

  // Of a token in the vector unit's memory: scores, weights, rules.
  index token_bytes(index block) const {
    index weights = 2 * block * numbers_.weight_pieces;
    if (views_)
      weights = weights_ahead * t_.most * numbers_.weight_pieces;
    else if (plan_.nz_weights)  // piece by piece
      weights = (numbers_.f16_scores ? 2 : 3) * round_up(block, granule_);
    return 2 * (direct_ ? t_.most : block) * score_bytes_ + weights * f16_bytes + block * rule_bytes() +
           (p_.packed_mask.present() ? 6 : 1) * f32_bytes;
  }

  // Of the vector unit's memory, whatever the tokens are: sum, products, out and its coefficients; q in pieces;
  // columns, and those of transfers.
  index block_bytes(index block) const {
    const bool coded = p_.out_scale.present();
    const index q_bytes = byte_size(p_.q.dtype, 1), wide = p_.q.dtype == DType::f16 ? 0 : 2 * f32_bytes;
    const index out =
        coded ? t_.most * v_dim_ * 2 * f32_bytes : block * v_dim_ * t_.result_blocks * byte_size(p_.out.dtype, 1);
    const index products = direct_ ? (t_.hi_lo_stacked ? 4 : 2) * t_.most : t_.product_blocks * block;
    const index q = plan_.q_as_it_is ? 0 : block * dim_ * (2 * q_bytes + 2 * numbers_.q_pieces * f16_bytes + wide);
    return t_.most * v_dim_ * f32_bytes + 2 * v_dim_ * f32_bytes + products * v_dim_ * byte_size(numbers_.products, 1) +
           out + block * (t_.rows + 64) + q +
           t_.most * (18 * f32_bytes + (p_.alibi_slopes.present() ? 2 * align_ : 0)) + block * 6 * align_ + 3072;
  }

  // Tokens of a tile beside blocks of so many rows.
  index fit(index block) const {
    const auto lines = [&](Repack repack, index dim) {
      return repack == Repack::by_load ? 0 : 2 * columns_of_lines(device_, dim) * f16_bytes;
    };
    index staged = 2 * (dim_ + v_dim_) * f16_bytes / t_.parts + lines(plan_.k, p_.k.dim) + lines(plan_.v, p_.v.dim);
    if (!views_) staged += 2 * numbers_.weight_pieces * round_up(t_.product_rows, granule_) * f16_bytes / t_.parts;
    const index q = 2 * numbers_.q_pieces * round_up(t_.rows, granule_) * dim_ * f16_bytes;
    const index staging = bytes(Space::staging) - q;
    if (device_.same_memory(Space::staging, Space::vector))
      return (staging - block_bytes(block)) / (staged + token_bytes(block));
    return std::min(staging / staged, (bytes(Space::vector) - block_bytes(block)) / token_bytes(block));
  }

  // Eighths: a pipeline of four stages fills quickly. But a step should not be over before a flag of another stream
  // comes.
  index enough_tokens() const {
    index longest = 1;
    for (const AttentionSequence& s : p_.sequences) longest = std::max(longest, s.keys);
    const double flight = device_.sync.stream_cycles * device_.dram_bytes_per_cycle_core;
    const index in_flight = static_cast<index>(flight) / ((dim_ + v_dim_) * f16_bytes);
    const index range = p_.chunk_invariant ? 4096 : ceil_div(longest, p_.splits);
    return std::max({ceil_div(range, 8), in_flight, unit_});
  }

  // The largest block beside which long tiles fit, and how long. Columns of its rows start where the vector unit can.
  index choose_block(index enough) {
    const index heads = std::min(p_.group(), plan_.max_rows);
    const index whole_queries = p_.chunk_invariant && plan_.max_rows > heads ? heads : 1;
    const index step = std::lcm(whole_queries, std::max<index>(align_ / score_bytes_, 8));
    t_.block = std::max<index>(t_.most, 1);
    index tokens = fit(t_.block);
    for (index rows = direct_ ? 256 : 64; p_.chunk_invariant && rows >= 8; rows /= 2) {
      const index block = round_up(rows, step);
      if (block >= t_.block || (!direct_ && tokens >= enough)) continue;
      if (rows < worth_a_verb && tokens >= unit_ * t_.parts) break;
      if (const index other = fit(block); direct_ || other > tokens) t_.block = block, tokens = other;
      if (direct_) break;
    }
    return tokens;
  }

  const Device& device_;
  const AttentionCall& p_;
  const AttentionPlan& plan_;
  const Numbers& numbers_;
  const bool views_, direct_;  // feeds are views; sums are drained to the vector unit
  const index unit_;           // of all extents
  const index granule_, align_, dim_, v_dim_, score_bytes_;
  Tiles t_{};
};

}  // namespace

Tiles plan_tiles(const Device& device, const AttentionCall& problem, const std::vector<QueryTile>& units,
                 const AttentionPlan& plan) {
  return Sizer(device, problem, plan).size(units);
}

namespace {

// Whose units are whose, and what each core has to do.
std::pair<std::vector<std::vector<index>>, std::vector<index>> divide(const std::vector<QueryTile>& units,
                                                                      std::uint32_t cores) {
  constexpr index of_a_tile = 64;  // rows that the way of K and V counts for
  const auto cost = [&](index i) {
    const QueryTile& unit = units[static_cast<std::size_t>(i)];
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
  return {std::move(shares), std::move(load)};
}

}  // namespace

index longest_share(const std::vector<QueryTile>& units, std::uint32_t cores) {
  const std::vector<index> load = divide(units, cores).second;
  return *std::max_element(load.begin(), load.end());
}

std::vector<std::vector<index>> shares_of(const std::vector<QueryTile>& units, std::uint32_t cores) {
  std::vector<std::vector<index>> shares = divide(units, cores).first;
  // What one unit has of K and V the next one may find there.
  const auto same_keys = [&](index i) {
    const QueryTile& unit = units[static_cast<std::size_t>(i)];
    return std::pair{unit.sequence, unit.kv_head};
  };
  for (std::vector<index>& share : shares)
    std::stable_sort(share.begin(), share.end(), [&](index a, index b) { return same_keys(a) < same_keys(b); });
  return shares;
}

TileWork part_of(const Core& core, const QueryTile& unit, index number) {
  TileWork work{&unit, number, 0, {}, unit, {}, false, false, false};
  const index step = unit.queries > 1 ? unit.heads : 1;
  const RowRange mine = my_rows(core, unit.rows() / step);
  work.mine = {mine.first * step, mine.count * step};
  work.mine_unit = unit.part(work.mine.first, work.mine.count);
  return work;
}

std::vector<TileWork> tile_works(const Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                                 const AttentionPlan& plan) {
  std::vector<TileWork> works;
  const index trim = plan.tiles.causal_trim, vectors = core.vector_dim();
  index turn = 0;
  for (const index i : plan.shares[core.block_idx()]) {
    TileWork work = part_of(core, units[static_cast<std::size_t>(i)], i);
    const QueryTile& unit = *work.unit;
    // Rows that end alike must be those of one vector unit.
    work.causal_trim =
        unit.queries > 1 && trim > 0 && (vectors == 1 || ceil_div(unit.queries, vectors) * unit.heads % trim == 0);
    const std::vector<KeyTile> tiles = key_tiles(problem, unit, plan.tiles.tokens);
    work.turn = turn;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      work.tile = tiles[t];
      work.first = t == 0, work.last = t + 1 == tiles.size();
      works.push_back(work);
    }
    turn += tiles.empty() ? 0 : 1;
  }
  return works;
}

index keys_of(const AttentionCall& problem, const Tiles& tiles, const TileWork& work, index row) {
  if (!work.causal_trim) return work.tile.count;
  const QueryTile& unit = *work.unit;
  const index last = std::min((row / tiles.causal_trim + 1) * tiles.causal_trim, unit.rows()) - 1;
  const KeyRange seen = problem.visible(problem.sequence(unit), unit.query + last / unit.heads);
  return std::clamp<index>(seen.end - work.tile.first, 1, work.tile.count);  // a hidden one rather than none
}

std::vector<RowBlock> row_blocks(const AttentionCall& problem, const Tiles& tiles, const TileWork& work) {
  std::vector<RowBlock> blocks;
  for (index first = 0; first < work.mine.count; first += tiles.block) {
    const index rows = std::min(tiles.block, work.mine.count - first);
    blocks.push_back(
        {first, rows, keys_of(problem, tiles, work, work.mine.first + first), work.mine_unit.part(first, rows)});
  }
  return blocks;
}

}  // namespace inlay::npu
