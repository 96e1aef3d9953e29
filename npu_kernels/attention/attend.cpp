#include "npu_kernels/attention/attend.hpp"

#include <memory>

#include "npu_kernels/attention/attend_vectors.hpp"

namespace inlay::npu {

Program attend(GlobalMemory& memory, AttentionProblem wanted, const Choices&) {
  const Problem bounds = bounds_of(wanted);
  const VectorTiles tiles = vector_tiles(memory.device(), wanted);
  const auto problem = std::make_shared<const AttentionProblem>(std::move(wanted));
  const auto units = std::make_shared<const std::vector<WorkUnit>>(units_of(*problem, tiles.rows));
  return {.body = [problem, units, tiles](Core& core) { attend_on_vectors(core, *problem, *units, tiles); },
          .problem = bounds,
          .launch = {.cores = cores_for(static_cast<index>(units->size()), 2, memory.cores())}};
}

}  // namespace inlay::npu
