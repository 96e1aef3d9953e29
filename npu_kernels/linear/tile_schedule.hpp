// The turns of a core: for each of its blocks of sums the chunks of the depth, one after the other.
#pragma once

#include <vector>

#include "npu_kernels/linear/products.hpp"

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

class TileSchedule {
 public:
  TileSchedule(const Core& core, const Products& products, const ProductTiles& tiles);
  index count() const { return count_; }
  ScheduledTile at(index turn) const;
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
