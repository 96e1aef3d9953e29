// Tiles between the matrix unit and the vector units that share a unit's rows, by the device's shortest way:
//
//   direct           a path or a shared memory joins the two: one ring of tiles
//   through memory   a ring of tiles in a workspace; the vector units' rows go there and come from there in blocks
//   packed           so too, as blocks of the matrix unit's (nz), which the vector unit makes
#pragma once

#include <algorithm>
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
           index blocks, const Tensor& workspace)
      : core_(core), rows_(tiles.rows), columns_(columns), of_keys_(of_keys), tiles_([&] {
          constexpr index drained_ahead = 2;  // on their way through global memory
          if (!drains_to_vector(core.device()))
            return workspace_ring(core, name + " in global memory", workspace, tiles.rows, drained_ahead, Pipe::drain,
                                  Pipe::load_vector);
          const index rows = (tiles.hi_lo_stacked && !of_keys ? tiles.rows : 0) + tiles.most;
          return core.ring(name, Space::vector, {std::max<index>(rows, 2), std::max<index>(columns, 2)}, dtype,
                           {2, Pipe::drain, Pipe::vector});
        }()) {
    if (drains_to_vector(core.device())) return;
    blocks_.emplace(core.ring(name, Space::vector, {std::max<index>(tiles.block, 2), std::max<index>(columns, 2)},
                              dtype, {static_cast<std::uint32_t>(blocks), Pipe::load_vector, Pipe::vector}));
  }
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
  void load(const TileWork& work, const std::vector<RowBlock>& blocks, std::size_t ahead) {
    for (; loaded_ < std::min(ahead, blocks.size()); ++loaded_) {
      const RowBlock& block = blocks[loaded_];
      core_.copy(blocks_->acquire().slice(0, block.rows, 0, columns_of(block)),
                 tile_.slice(work.mine.first + block.first, block.rows, 0, columns_of(block)));
      blocks_->commit();
      if (loaded_ + 1 == blocks.size()) tiles_.release();
    }
  }
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
  ToLeft(Core& core, const std::string& name, const Form& form, const Tensor& workspace)
      : core_(core),
        form_(form),
        direct_(left_is_vectors(core.device())),
        tiles_(direct_ ? core.ring(name, Space::vector, {std::max<index>(form.pieces * form.rows, 2), form.columns},
                                   DType::f16, {form.depth, Pipe::vector, Pipe::feed})
                       : workspace_ring(core, name + " in global memory", workspace, form.pieces * form.rows,
                                        form.depth, Pipe::store, Pipe::load)) {
    if (direct_) return;
    const index rows = std::max<index>((form.packed ? 1 : form.pieces) * form.block, 2);
    blocks_.emplace(core.ring(name, Space::vector, {rows, form.columns}, DType::f16, {2, Pipe::vector, Pipe::store},
                              form.packed ? Layout::nz : Layout::nd));
    if (form.packed && !form.in_place)
      plain_ = core.alloc(name + " in rows", Space::vector, {form.block, form.columns}, DType::f16);
    staged_.emplace(core.ring("staged " + name, Space::staging, {form.pieces * form.staged_rows, form.staged_columns},
                              DType::f16, {2, Pipe::load, Pipe::feed}, Layout::nz));
  }

  // A tile: open, of each block piece by piece, close.
  void open() { tile_ = as_blocks(tiles_.acquire()); }
  void open(const Tensor& source) {
    if (form_.in_place)
      plain_ = source;
    else if (!direct_ && !form_.packed)
      plain_ = blocks_->acquire();
  }
  Tensor piece(const TileWork& work, const RowBlock& block, index piece, index columns) {
    if (direct_) return place(work, block, piece, columns);
    return plain_.slice(form_.packed ? 0 : piece * form_.block, block.rows, 0, columns);
  }
  // A piece is made, but the last one; where they leave as blocks the next one may take its place.
  void pass(const TileWork& work, const RowBlock& block, index piece, index columns) {
    if (!form_.packed) return;
    core_.vpack_nz(blocks_->acquire().slice(0, block.rows, 0, columns), plain_.slice(0, block.rows, 0, columns));
    blocks_->commit();
    core_.copy(place(work, block, piece, columns), blocks_->wait().slice(0, block.rows, 0, columns));
    blocks_->release();
  }
  void close(const TileWork& work, const RowBlock& block, index columns) {
    if (form_.packed) return pass(work, block, form_.pieces - 1, columns);
    if (direct_) return;
    blocks_->commit();
    const Tensor slot = blocks_->wait();
    for (index p = 0; p < form_.pieces; ++p)
      core_.copy(place(work, block, p, columns), slot.slice(p * form_.block, block.rows, 0, columns));
    blocks_->release();
  }
  void close() { tiles_.commit(); }

  // The other side: the tile, then for each product its columns [first, first + count) of rows from `row` on. What is
  // staged may be staged one ahead.
  void wait_tile() { from_ = as_blocks(tiles_.wait()); }
  void stage(index row, index rows, index first, index count) {
    if (direct_) return;
    const Tensor slot = staged_->acquire();
    for (index p = 0; p < form_.pieces; ++p) {
      const Tensor to = slot.slice(p * form_.staged_rows, rows, 0, count);
      const Tensor from = from_.slice(p * form_.rows + row, rows, first, count);
      form_.packed ? core_.copy(to, from) : core_.nd2nz(to, from);
    }
    staged_->commit();
  }
  Tensor wait(index row, index rows, index first, index count) {
    const index all = (form_.pieces - 1) * apart() + rows;
    return direct_ ? from_.slice(row, all, first, count) : staged_->wait().slice(0, all, 0, count);
  }
  void release() {
    if (staged_) staged_->release();
  }
  void release_tile() { tiles_.release(); }
  index apart() const { return staged_ ? form_.staged_rows : form_.rows; }

 private:
  // Rows of the workspace, side by side, as blocks of columns.
  Tensor as_blocks(const Tensor& slot) const {
    if (!form_.packed || direct_) return slot;
    Tensor blocks = slot;
    blocks.layout = Layout::nz;
    blocks.block = core_.device().fractal_block(DType::f16);
    blocks.pitch = slot.rows();
    return blocks;
  }
  Tensor place(const TileWork& work, const RowBlock& block, index piece, index columns) const {
    return tile_.slice(piece * form_.rows + work.mine.first + block.first, block.rows, 0, columns);
  }

  Core& core_;
  const Form form_;
  const bool direct_;
  Ring tiles_;                           // of all vector units
  std::optional<Ring> blocks_, staged_;  // of this one's rows on their way out; of those on their way in
  Tensor plain_;                         // a block's rows: in pieces, or before they are packed
  Tensor tile_, from_;
};

}  // namespace inlay::npu
