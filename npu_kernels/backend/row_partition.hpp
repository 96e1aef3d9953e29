// Between the streams of a core: who takes which rows, and tiles that go through global memory where no path joins two
// units.
#pragma once

#include <string>

#include "tile_machine/run/core.hpp"

namespace inlay::npu {

// Of `rows` rows those that this vector stream works on: equal parts, the last one shorter.
struct RowRange {
  index first = 0, count = 0;
};
RowRange my_rows(const Core& core, index rows);

inline bool drains_to_vector(const Device& device) { return device.path(Space::accumulator, Space::vector) != nullptr; }
// The first path that sums take to the vector unit; null: there is none.
inline const Path* drain_path(const Device& device) {
  return device.path(Space::accumulator, drains_to_vector(device) ? Space::vector : Space::global);
}

// Each core has `depth` tiles of `rows` rows in the workspace, one core's behind the other's.
Ring workspace_ring(Core& core, const std::string& name, const Tensor& workspace, index rows, index depth,
                    Pipe producer, Pipe consumer, Core::Site site = Core::Site::current());

}  // namespace inlay::npu
