#include "npu_kernels/linear/tile_schedule.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// The slices of a block, of which the first is `first_k` deep.
std::vector<Slice> slices_of(const Products& p, index chunk_k, index first_k) {
  std::vector<Slice> slices;
  index step = 0;
  for (const Segment& segment : p.segments)
    for (std::size_t left = 0; left < p.left.size(); ++left)
      for (std::size_t right = 0; right < p.right.size(); ++right, ++step)
        for (index k = 0, depth = 0; k < segment.depth; k += depth) {
          depth = std::min(slices.empty() ? first_k : chunk_k, segment.depth - k);
          slices.push_back({step, segment.first + k, depth, left, right, k == 0, k + depth == segment.depth});
        }
  return slices;
}

// Chunks of 1, 2, .. steps, core by core; a chunk may be shorter than a step.
index first_chunk(const Core& core, const ProductTiles& t) {
  const index steps = std::max<index>(1, t.chunk_k / t.step_k);
  return std::min(t.chunk_k, t.step_k * (1 + index{core.block_idx()} % steps));
}

}  // namespace

// Cores side by side take the same part of the longer operand: it comes from global memory over the whole run, and
// not all of it at its start. Rows that stay are worked through before the next ones.
TileSchedule::TileSchedule(const Core& core, const Products& p, const ProductTiles& t)
    : tiles_(t),
      rows_(p.rows()),
      columns_(p.columns()),
      blocks_m_(ceil_div(rows_, t.block_m)),
      blocks_n_(ceil_div(columns_, t.block_n)),
      me_(core.block_idx()),
      cores_(core.block_dim()),
      down_(t.own || (columns_ >= rows_ && !t.keeps)),
      first_(slices_of(p, t.chunk_k, first_chunk(core, t))),
      slices_(slices_of(p, t.chunk_k, t.chunk_k)),
      count_(0) {
  const index items = t.own ? blocks_n_ : blocks_m_ * blocks_n_;
  const index mine = me_ < items ? ceil_div(items - me_, cores_) * blocks_of_item() : 0;
  if (mine > 0) count_ = static_cast<index>(first_.size()) + (mine - 1) * of_block();
}

ScheduledTile TileSchedule::at(index turn) const {
  const auto of_first = static_cast<index>(first_.size());
  const index later = turn - of_first, done = later < 0 ? 0 : 1 + later / of_block();
  const index block =
      tiles_.own ? done % blocks_m_ + (me_ + done / blocks_m_ * cores_) * blocks_m_ : me_ + done * cores_;
  const index row = (down_ ? block % blocks_m_ : block / blocks_n_) * tiles_.block_m;
  const index column = (down_ ? block / blocks_m_ : block % blocks_n_) * tiles_.block_n;
  return {row, std::min(tiles_.block_m, rows_ - row), column, std::min(tiles_.block_n, columns_ - column),
          later < 0 ? first_[static_cast<std::size_t>(turn)] : slices_[static_cast<std::size_t>(later % of_block())]};
}

}  // namespace inlay::npu
