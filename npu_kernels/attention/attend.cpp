#include "npu_kernels/attention/attend.hpp"

#include <memory>

#include "npu_kernels/attention/attend_vectors.hpp"

namespace inlay::npu {

namespace {

// Rows of a unit that see different keys, or keys that are loaded for the sake of where a tile starts.
bool hides(const AttentionProblem& p, const std::vector<WorkUnit>& units) {
  if (present(p.bias) || present(p.mask) || present(p.packed) || (p.by_chunks && p.window_left >= 0)) return true;
  for (const WorkUnit& unit : units) {
    const Sequence& s = p.sequences[static_cast<std::size_t>(unit.sequence)];
    const KeyRange first = p.visible(s, unit.query), last = p.visible(s, unit.query + unit.queries - 1);
    if (first.begin != last.begin || first.end != last.end) return true;
  }
  return false;
}

}  // namespace

Program attend(GlobalMemory& memory, AttentionProblem wanted, const Choices&) {
  const Problem bounds = bounds_of(wanted);
  const VectorTiles tiles = vector_tiles(memory.device(), wanted);
  auto units = std::make_shared<const std::vector<WorkUnit>>(units_of(wanted, tiles.rows));
  wanted.hides = hides(wanted, *units);
  const auto count = static_cast<index>(units->size());
  const PartsWorkspace space = parts_workspace(memory, wanted, count, tiles.rows);
  const auto problem = std::make_shared<const AttentionProblem>(std::move(wanted));
  return {.body = [=](Core& core) { attend_on_vectors(core, *problem, *units, space, tiles); },
          .problem = bounds,
          .launch = {.cores = cores_for(count, 2, memory.cores())}};
}

}  // namespace inlay::npu
