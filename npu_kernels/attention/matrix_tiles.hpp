// Tiles of attend_matrix, and the work of a core as one sequence of them.
#pragma once

#include <vector>

#include "npu_kernels/attention/attend_matrix.hpp"
#include "npu_kernels/attention/handover.hpp"

namespace inlay::npu {

struct KeyWork {
  const WorkUnit* unit;
  index number;        // of the unit
  RowRange mine;       // rows of this vector unit: whole queries, or heads of the only one
  WorkUnit mine_unit;  // .. and these
  KeyTile tile;
  bool first, last;  // of the unit
};

// This vector unit's part of a unit's rows.
KeyWork part_of(const Core& core, const WorkUnit& unit, index number);
// Tiles of all units of a core that see a key.
std::vector<KeyWork> key_works(const Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                               index tokens);

}  // namespace inlay::npu
