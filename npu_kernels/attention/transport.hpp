// Tiles between the matrix unit and the vector units that share a unit's rows, by the device's shortest way:
//
//   direct           a path or a shared memory joins the two: one ring of tiles
//   through memory   a ring of tiles in a workspace; the vector units' rows go there and come from there in blocks
//   packed           so too, as blocks of the matrix unit's (nz), which the vector unit makes
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "npu_kernels/attention/plan.hpp"
#include "npu_kernels/backend/row_partition.hpp"

namespace inlay::npu {

// From the accumulator, scores or products: each vector unit gets its rows.
class ToVector {
 public:
  // Tiles of `columns`, or of one for each key; so many blocks are on their way. Of products whose halves are stacked
  // those of the low ones lie a unit's rows behind the others, in tiles that come directly.
  ToVector(Core& core, const std::string& name, const Tiles& tiles, index columns, bool of_keys, DType dtype,
           index blocks, const Tensor& workspace);
  Tensor acquire() { return tiles_.acquire(); }
  void commit() { tiles_.commit(); }
  // Of the next tile: visit(block, its rows and columns), one block after the other, the next ones on their way.
  template <class Visit> void visit(const TileWork& work, const std::vector<RowBlock>& blocks, Visit&& visit) {
    tile_ = tiles_.wait();
    loaded_ = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks_) load(work, blocks, i + blocks_->depth());
      const Tensor slot = blocks_ ? blocks_->wait() : tile_.row_slice(blocks[i].first, blocks[i].rows);
      visit(blocks[i], slot.slice(0, blocks[i].rows, 0, columns_of(blocks[i])));
      if (blocks_) blocks_->release();
    }
    if (!blocks_ || blocks.empty()) tiles_.release();
  }
  // Of the block that is visited.
  Tensor low(const RowBlock& block) const { return tile_.slice(rows_ + block.first, block.rows, 0, columns_of(block)); }

 private:
  void load(const TileWork& work, const std::vector<RowBlock>& blocks, std::size_t ahead);
  index columns_of(const RowBlock& block) const { return of_keys_ ? block.keys : columns_; }

  Core& core_;
  const index rows_, columns_;
  const bool of_keys_;
  Ring tiles_;
  std::optional<Ring> blocks_;  // of rows from global memory
  Tensor tile_;                 // whose blocks come
  std::size_t loaded_ = 0;
};

// To the left operand, q or weights: pieces of f16 of the same rows, piece p of row r in row p * apart() + r.
class ToLeft {
 public:
  struct Form {
    index pieces, rows, columns;        // of a tile
    index block;                        // rows that a vector unit makes at a time
    index staged_rows, staged_columns;  // of what is staged at a time
    std::uint32_t depth;                // tiles
    bool packed;
    bool in_place;  // packed ones are made where their source is
  };
  ToLeft(Core& core, const std::string& name, const Form& form, const Tensor& workspace);
  // A tile: open, of each block piece by piece, close.
  void open();
  void open(const RowBlock& block, const Tensor& source);
  Tensor piece(const TileWork& work, const RowBlock& block, index piece, index columns);
  // A piece is made, but the last one; where they leave as blocks the next one may take its place.
  void pass(const TileWork& work, const RowBlock& block, index piece, index columns);
  void close(const TileWork& work, const RowBlock& block, index columns);
  void close() { tiles_.commit(); }

  // The other side: the tile, then for each product its columns [first, first + count) of rows from `row` on. What is
  // staged may be staged one ahead.
  void wait_tile() { from_ = as_blocks(tiles_.wait()); }
  void stage(index row, index rows, index first, index count);
  Tensor wait(index row, index rows, index first, index count);
  void release() {
    if (staged_) staged_->release();
  }
  void release_tile() { tiles_.release(); }
  index apart() const { return staged_ ? form_.staged_rows : form_.rows; }

 private:
  Tensor as_blocks(const Tensor& slot) const;
  void store(const TileWork& work, const RowBlock& block, index piece, const Tensor& from, index columns);

  Core& core_;
  const Form form_;
  const bool direct_;
  Ring tiles_;                           // of all vector units
  std::optional<Ring> blocks_, staged_;  // of this one's rows on their way out; of those on their way in
  Tensor plain_;                         // a block's rows: in pieces, or before they are packed
  Tensor tile_, from_;
};

}  // namespace inlay::npu
