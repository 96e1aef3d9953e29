#include "npu_kernels/backend/row_partition.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

RowRange my_rows(const Core& core, index rows) {
  const index part = ceil_div(rows, core.vector_dim()), first = std::min(rows, core.vector_idx() * part);
  return {first, std::min(part, rows - first)};
}

Ring workspace_ring(Core& core, const std::string& name, const Tensor& workspace, index rows, index depth,
                    Pipe producer, Pipe consumer, Core::Site site) {
  std::vector<Tensor> tiles;
  for (index i = 0; i < depth; ++i) tiles.push_back(workspace.row_slice((core.block_idx() * depth + i) * rows, rows));
  return core.ring(name, std::move(tiles), producer, consumer, site);
}

}  // namespace inlay::npu
