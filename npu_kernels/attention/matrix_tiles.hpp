// Tiles of attend_matrix, and the work of a core as one sequence of them.
#pragma once

#include <vector>

#include "npu_kernels/attention/attend_matrix.hpp"
#include "npu_kernels/backend/handover.hpp"

namespace inlay::npu {

struct KeyWork {
  const WorkUnit* unit;
  index number;        // of the unit
  index turn;          // .. among those of the core
  RowRange mine;       // rows of this vector unit: whole queries, or heads of the only one
  WorkUnit mine_unit;  // .. and these
  KeyTile tile;
  bool first, last;  // of the unit
  bool graded;       // products stop where the keys of their last row end
};

// Rows that a vector unit takes at a time, counted from its own first one: whole queries, or heads of one.
struct RowBlock {
  index first, rows;
  index keys;  // of the tile, that were multiplied for them
  WorkUnit unit;
};

// This vector unit's part of a unit's rows.
KeyWork part_of(const Core& core, const WorkUnit& unit, index number);
// Tiles of all units of a core that see a key.
std::vector<KeyWork> key_works(const Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                               const MatrixPlan& plan);
// Of the tile those keys that the product with this row of the unit is made for.
index keys_of(const AttentionProblem& problem, const MatrixTiles& tiles, const KeyWork& work, index row);
// Of a tile's keys those that some rows of a unit see and others do not: not more than this, where the end of a window
// is the only rule.
index hidden_columns(const Device& device, const AttentionProblem& problem, const MatrixTiles& tiles);
// Columns of K or V in the vector unit's memory, where any row may be a transfer's first.
index columns_of_lines(const Device& device, index dim);
// Those of this vector unit.
std::vector<RowBlock> row_blocks(const AttentionProblem& problem, const MatrixTiles& tiles, const KeyWork& work);

// Units for each core, the longest first, each for the core that has least to do.
std::vector<std::vector<index>> shares_of(const std::vector<WorkUnit>& units, std::uint32_t cores);

}  // namespace inlay::npu
