// Between the matrix unit and the vector units that share a unit's rows: rings that take the device's shortest way.
// Where a path or a shared memory joins the two, tiles take it; else they pass through a workspace in global memory,
// and the vector units take their rows of them in blocks.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "npu_kernels/attention/matrix_tiles.hpp"
#include "npu_kernels/backend/handover.hpp"

namespace inlay::npu {

inline constexpr index weights_ahead = 3;  // tiles of them on their way: vec1 is two ahead of mm2

inline constexpr index scores_ahead = 2;  // .. and of scores and products, where they pass through global memory

// Scores or products: each vector unit gets its rows.
class UnitToVector {
 public:
  // A row has `columns`, or one for each key; so many blocks are on their way.
  UnitToVector(Core& core, const std::string& name, const MatrixTiles& tiles, index columns, bool of_keys, DType dtype,
               index blocks, const Tensor& workspace);
  Tensor acquire() { return direct_ ? tiles_.acquire() : through_->acquire(); }
  void commit() { direct_ ? tiles_.commit() : through_->commit(); }
  // Of the next tile: visit(block, its rows and columns), one block after the other, the next ones on their way.
  template <class Visit> void visit(const KeyWork& work, const std::vector<RowBlock>& blocks, Visit&& visit) {
    tile_ = direct_ ? tiles_.wait() : through_->wait();
    loaded_ = 0;
    if (!direct_ && blocks.empty()) through_->release();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      load(work, blocks, i + tiles_.depth());
      const RowBlock& block = blocks[i];
      const Tensor slot = direct_ ? tile_.row_slice(block.first, block.rows) : tiles_.wait().row_slice(0, block.rows);
      visit(block, slot.slice(0, block.rows, 0, columns_of(block)));
      if (!direct_) tiles_.release();
    }
    if (direct_) tiles_.release();
  }

 private:
  void load(const KeyWork& work, const std::vector<RowBlock>& blocks, std::size_t ahead);
  index columns_of(const RowBlock& block) const { return of_keys_ ? block.keys : columns_; }

  Core& core_;
  const index columns_;
  const bool of_keys_, direct_;
  Ring tiles_;
  std::optional<Ring> through_;
  Tensor tile_;  // whose blocks come
  std::size_t loaded_ = 0;
};

// Weights in pieces, for the left operand of mm2.
class UnitToLeft {
 public:
  UnitToLeft(Core& core, const MatrixPlan& plan, const Tensor& workspace);
  // A tile: open, of each block piece by piece, close. Weights in f16 may be made where their scores are.
  void open();
  void open(const RowBlock& block, const Tensor& scores);
  Tensor piece(const RowBlock& block, index piece);
  bool in_place() const { return in_place_; }
  // A piece is made, but the last one; where they leave as blocks the next one may take its place.
  void pass(const KeyWork& work, const RowBlock& block, index piece);
  void close(const KeyWork& work, const RowBlock& block);
  void close() { direct_ ? tiles_.commit() : through_->commit(); }

  // The other side: the tile, then for each product its columns [first, first + count) of rows from `row` on, stacked
  // pieces apart() rows apart. What is staged may be staged one ahead.
  void wait_tile();
  void stage(index row, index rows, index first, index count);
  Tensor wait(index row, index rows, index first, index count);
  void release() {
    if (!direct_) staged_->release();
  }
  void release_tile() { direct_ ? tiles_.release() : through_->release(); }
  index apart() const { return direct_ ? rows_ : product_rows_; }

 private:
  Tensor as_blocks(const Tensor& slot) const;
  void store(const KeyWork& work, const RowBlock& block, index piece, const Tensor& from);

  Core& core_;
  const index pieces_, rows_, block_, product_rows_;
  const bool packed_, in_place_, direct_;
  Ring tiles_;
  std::optional<Ring> through_, staged_;
  Tensor plain_;  // of packed weights: before they are so
  Tensor tile_;   // of the vector unit, or of the workspace for it
  Tensor from_;
};

}  // namespace inlay::npu
