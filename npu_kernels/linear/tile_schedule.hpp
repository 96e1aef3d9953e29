// The turns of a core: for each of its blocks of sums the chunks of the depth, one after the other.
#pragma once

#include <algorithm>
#include <vector>

#include "npu_kernels/linear/products.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

// What is staged at once for a block: a chunk of a segment, of one pair of parts.
struct Slice {
  index step, k, depth;
  std::size_t left, right;
  bool first, last;  // of its sums
};

struct ScheduledTile {
  index row, rows, column, columns;
  Slice slice;
};

// The slices of a block, of which the first is `first_k` deep.
inline std::vector<Slice> slices_of(const Products& p, index chunk_k, index first_k) {
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
inline index first_chunk(const Core& core, const ProductTiles& t) {
  const index steps = std::max<index>(1, t.chunk_k / t.step_k);
  return std::min(t.chunk_k, t.step_k * (1 + index{core.block_idx()} % steps));
}

// Cores side by side take the same part of the longer operand: it comes from global memory over the whole run, and
// not all of it at its start. Rows that stay are worked through before the next ones.
class TileSchedule {
 public:
  TileSchedule(const Core& core, const Products& p, const ProductTiles& t)
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
  index count() const { return count_; }
  ScheduledTile at(index turn) const {
    const auto of_first = static_cast<index>(first_.size());
    const index later = turn - of_first, done = later < 0 ? 0 : 1 + later / of_block();
    const index block =
        tiles_.own ? done % blocks_m_ + (me_ + done / blocks_m_ * cores_) * blocks_m_ : me_ + done * cores_;
    const index row = (down_ ? block % blocks_m_ : block / blocks_n_) * tiles_.block_m;
    const index column = (down_ ? block / blocks_m_ : block % blocks_n_) * tiles_.block_n;
    return {row, std::min(tiles_.block_m, rows_ - row), column, std::min(tiles_.block_n, columns_ - column),
            later < 0 ? first_[static_cast<std::size_t>(turn)] : slices_[static_cast<std::size_t>(later % of_block())]};
  }
  bool new_rows(index turn) const { return turn == 0 || at(turn).row != at(turn - 1).row; }
  // Columns and all their rows, where a core lays them out for itself (ProductTiles::own); else a block.
  index blocks_of_item() const { return tiles_.own ? blocks_m_ : 1; }
  index of_item() const { return blocks_of_item() * of_block(); }
  index of_block() const { return static_cast<index>(slices_.size()); }

 private:
  ProductTiles tiles_;
  index rows_, columns_, blocks_m_, blocks_n_, me_, cores_;
  bool down_;
  std::vector<Slice> first_, slices_;  // of the core's first block, of the others
  index count_;
};

}  // namespace inlay::npu
