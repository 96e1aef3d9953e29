// From an operator's problem to its program: the template that serves it, the units, the workspace.
#pragma once

#include <vector>

#include "npu_kernels/attention/finish.hpp"
#include "npu_kernels/attention/plan.hpp"
#include "npu_kernels/backend/program.hpp"

namespace inlay::npu {

// The quickest template that fits.
Program attend(GlobalMemory& memory, const AttentionProblem<Host>& problem, const Choices& choices);

struct AttentionTemplate {
  bool matrix = true;  // whose rows the core's vector units share; else these alone
  index splits = 1;    // of the keys
};
// Every template, in a few numbers of splits.
std::vector<AttentionTemplate> templates_of(const AttentionCall& problem, const Device& device, std::uint32_t cores);
// Body-less where it does not serve the problem, or its tiles do not fit.
Program attend_by(GlobalMemory& memory, AttentionCall problem, const Choices& choices, const AttentionTemplate& by);

// The vector units alone (vectors.cpp). Tiles as their memory holds them; of the dims, types and options, not of
// lengths.
struct VectorTiles {
  index rows, tokens;
};
VectorTiles vector_tiles(const Device& device, const AttentionCall& problem);
void attend_on_vectors(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                       const PartsWorkspace& space, VectorTiles tiles);

// The matrix unit beside them (pipeline.cpp). Each query of a prompt for itself, once more:
struct PerQueryPlan {
  std::vector<QueryTile> units;  // of one query each
  AttentionPlan plan;            // whose flags are of units
};
// False: sums were no numbers, and queries have been taken alone.
bool attend_on_matrix(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                      const PartsWorkspace& space, const AttentionPlan& plan, const PerQueryPlan* alone = nullptr);

}  // namespace inlay::npu
