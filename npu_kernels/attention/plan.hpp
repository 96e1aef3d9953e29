// What a program of the matrix unit is, chosen once from the problem and the device: sizes of tiles, numbers, ways of
// the operands, whose units are whose.
#pragma once

#include <utility>
#include <vector>

#include "npu_kernels/attention/problem.hpp"
#include "npu_kernels/backend/program.hpp"
#include "npu_kernels/backend/row_partition.hpp"

namespace inlay::npu {

inline constexpr float below_one = 1 - 0x1p-11f;
inline constexpr index weights_ahead = 3;  // tiles of weights on their way: the softmax is two ahead of the products

// Do the vector unit's tiles lie where the left operand is read from?
inline bool left_is_vectors(const Device& device) {
  return device.feeds_are_views() && device.same_memory(Space::vector, Space::left);
}

struct Tiles {
  index rows = 0;              // of a unit, even
  index most = 0;              // of them that a vector unit has
  index block = 0;             // of these that it takes at a time
  index causal_trim = 0;       // rows for which products stop where the keys of the last of them end; 0: nowhere
  index score_rows = 0;        // of one product of scores
  index product_rows = 0;      // of one product with V
  index tokens = 0;            // of a tile
  index parts = 1;             // of a tile's K and V, each on its own way into staging
  index score_columns = 0;     // of one product of scores
  index value_columns = 0;     // of one product with V
  index depth = 0;             // of one step of a product
  index accumulators = 2;      // sums that are worked on
  index product_blocks = 2;    // on their way to a vector unit
  index result_blocks = 2;     // on their way out
  bool hi_lo_stacked = false;  // high and low weights are rows of one product
  index part() const { return tokens / parts; }
  index sum_rows() const { return (hi_lo_stacked ? 2 : 1) * product_rows; }
};

struct Numbers {
  index q_pieces = 1, weight_pieces = 2;  // of f16
  bool f16_scores = false;
  DType products = DType::f32;  // f16 where scores are, and products go through global memory
  float drain_scale = 1;        // of scores on their way out of the accumulator
  float score_scale = 1;        // what of it is left for q or the vector unit
  float weight_scale = 1;       // or where weights are made of scores in f16
};

// Who makes the matrix unit's tiles of rows of K or V: the load, or the vector unit, which packs or transposes them.
enum class Repack { by_load, by_vector, transposed };

struct CacheBlocks {
  Tensor k, v;               // workspace; none where rows are loaded as they lie
  std::vector<index> first;  // of a sequence's keys, in rows of the workspace of one head
  index keys = 0;            // of all sequences
  index tokens = 0;          // that a vector unit makes at a time
  bool present() const { return k.present(); }
  // [keys, dim] of K or V of a sequence and a head.
  Tensor of(const Tensor& all, const AttentionCall& problem, index sequence, index kv_head, index dim) const;
};

struct AttentionPlan {
  Tiles tiles;
  Numbers numbers;
  index max_rows = 32;      // of a unit
  bool q_as_it_is = false;  // else the vector units make its pieces
  bool nz_weights = false;  // they leave the vector unit as blocks of the matrix unit's
  Repack k = Repack::by_load, v = Repack::by_load;
  std::vector<std::vector<index>> shares;  // units of each core
  struct {
    Tensor q, scores, weights, products;
  } workspace;  // what passes between the units
  CacheBlocks cache;
  Tensor nonfinite;             // flags of vector units (finish.hpp)
  bool flags_of_units = false;  // of each one's part of each unit
};

// Does the matrix unit serve this problem on this device?
bool fits_matrix(const Device& device, const AttentionCall& problem);
// May q in f16 be loaded as it is: whole blocks, or rows of a query that start where staging memory lets them?
bool loads_as_it_is(const Device& device, const AttentionCall& problem);
// So many heads of one query.
bool rows_are_aligned(const Device& device, index heads);
// Columns of K or V in the vector unit's memory, where any row may be a transfer's first.
index columns_of_lines(const Device& device, index dim);

// Tiles of units of `plan.max_rows` rows at most. No tokens: they do not fit. Of chunk_invariant problems they do not
// depend on lengths.
Tiles plan_tiles(const Device& device, const AttentionCall& problem, const std::vector<QueryTile>& units,
                 const AttentionPlan& plan);
// The plan and its units; `problem.hides` is set by them.
std::pair<AttentionPlan, std::vector<QueryTile>> plan_matrix(const Device& device, AttentionCall& problem,
                                                             NpuActivations activations, std::uint32_t cores);
void add_workspace(GlobalMemory& memory, const AttentionCall& problem, const std::vector<QueryTile>& units,
                   AttentionPlan& plan);
// Units for each core, the longest first, each for the core that has least to do.
std::vector<std::vector<index>> shares_of(const std::vector<QueryTile>& units, std::uint32_t cores);
// What the core that has most of them has, in keys times rows.
index longest_share(const std::vector<QueryTile>& units, std::uint32_t cores);
// Do rows of a unit see different keys, or are keys loaded for the sake of where a tile starts?
bool hides(const AttentionCall& problem, const std::vector<QueryTile>& units);
// Keys of a sequence that some query sees: from 0 on.
index seen_keys(const AttentionCall& problem, const AttentionSequence& s);

// A tile of keys of a unit, as one vector unit works on it.
struct TileWork {
  const QueryTile* unit;
  index number;         // of the unit
  index turn;           // among those of the core
  RowRange mine;        // rows of this vector unit: whole queries, or heads of the only one
  QueryTile mine_unit;  // which these are
  KeyTile tile;
  bool first, last;  // of the unit
  bool causal_trim;  // products stop where the keys of their last row end
};

// Rows that a vector unit takes at a time, counted from its own first one: whole queries, or heads of one.
struct RowBlock {
  index first, rows;
  index keys;  // of the tile, that were multiplied for them
  QueryTile unit;
};

// This vector unit's part of a unit's rows.
TileWork part_of(const Core& core, const QueryTile& unit, index number);
// Tiles of all units of a core that see a key.
std::vector<TileWork> tile_works(const Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                                 const AttentionPlan& plan);
// Of the tile those keys that the product with this row of the unit is made for.
index keys_of(const AttentionCall& problem, const Tiles& tiles, const TileWork& work, index row);
// Those of this vector unit.
std::vector<RowBlock> row_blocks(const AttentionCall& problem, const Tiles& tiles, const TileWork& work);

}  // namespace inlay::npu
