#include "npu_kernels/attention/transport.hpp"

#include <algorithm>

namespace inlay::npu {

namespace {

// Tiles of scores and products that are on their way through global memory.
constexpr index drained_ahead = 2;

index at_least_two(index n) { return std::max<index>(n, 2); }

}  // namespace

ToVector::ToVector(Core& core, const std::string& name, const Tiles& tiles, index columns, bool of_keys, DType dtype,
                   index blocks, const Tensor& workspace)
    : core_(core),
      rows_(tiles.rows),
      columns_(columns),
      of_keys_(of_keys),
      tiles_(drains_to_vector(core.device())
                 ? core.ring(name, Space::vector,
                             {at_least_two((tiles.hi_lo_stacked && !of_keys ? tiles.rows : 0) + tiles.most),
                              at_least_two(columns)},
                             dtype, {2, Pipe::drain, Pipe::vector})
                 : workspace_ring(core, name + " in global memory", workspace, tiles.rows, drained_ahead, Pipe::drain,
                                  Pipe::load_vector)) {
  if (drains_to_vector(core.device())) return;
  blocks_.emplace(core.ring(name, Space::vector, {at_least_two(tiles.block), at_least_two(columns)}, dtype,
                            {static_cast<std::uint32_t>(blocks), Pipe::load_vector, Pipe::vector}));
}

void ToVector::load(const TileWork& work, const std::vector<RowBlock>& blocks, std::size_t ahead) {
  for (; loaded_ < std::min(ahead, blocks.size()); ++loaded_) {
    const RowBlock& block = blocks[loaded_];
    core_.copy(blocks_->acquire().slice(0, block.rows, 0, columns_of(block)),
               tile_.slice(work.mine.first + block.first, block.rows, 0, columns_of(block)));
    blocks_->commit();
    if (loaded_ + 1 == blocks.size()) tiles_.release();
  }
}

ToLeft::ToLeft(Core& core, const std::string& name, const Form& form, const Tensor& workspace)
    : core_(core),
      form_(form),
      direct_(left_is_vectors(core.device())),
      tiles_(direct_ ? core.ring(name, Space::vector, {at_least_two(form.pieces * form.rows), form.columns}, DType::f16,
                                 {form.depth, Pipe::vector, Pipe::feed})
                     : workspace_ring(core, name + " in global memory", workspace, form.pieces * form.rows, form.depth,
                                      Pipe::store, Pipe::load)) {
  if (direct_) return;
  const index pieces = form.packed ? 1 : form.pieces;
  blocks_.emplace(core.ring(name, Space::vector, {at_least_two(pieces * form.block), form.columns}, DType::f16,
                            {2, Pipe::vector, Pipe::store}, form.packed ? Layout::nz : Layout::nd));
  if (form.packed && !form.in_place)
    plain_ = core.alloc(name + " in rows", Space::vector, {form.block, form.columns}, DType::f16);
  staged_.emplace(core.ring("staged " + name, Space::staging, {form.pieces * form.staged_rows, form.staged_columns},
                            DType::f16, {2, Pipe::load, Pipe::feed}, Layout::nz));
}

// Rows of the workspace, side by side, as blocks of columns.
Tensor ToLeft::as_blocks(const Tensor& slot) const {
  if (!form_.packed || direct_) return slot;
  Tensor blocks = slot;
  blocks.layout = Layout::nz;
  blocks.block = core_.device().fractal_block(DType::f16);
  blocks.pitch = slot.rows();
  return blocks;
}

void ToLeft::open() { tile_ = as_blocks(tiles_.acquire()); }

void ToLeft::open(const RowBlock&, const Tensor& source) {
  if (form_.in_place)
    plain_ = source;
  else if (!direct_ && !form_.packed)
    plain_ = blocks_->acquire();
}

Tensor ToLeft::piece(const TileWork& work, const RowBlock& block, index piece, index columns) {
  if (direct_) return tile_.slice(piece * form_.rows + work.mine.first + block.first, block.rows, 0, columns);
  return plain_.slice(form_.packed ? 0 : piece * form_.block, block.rows, 0, columns);
}

void ToLeft::store(const TileWork& work, const RowBlock& block, index piece, const Tensor& from, index columns) {
  core_.copy(tile_.slice(piece * form_.rows + work.mine.first + block.first, block.rows, 0, columns),
             from.slice(0, block.rows, 0, columns));
}

void ToLeft::pass(const TileWork& work, const RowBlock& block, index piece, index columns) {
  if (!form_.packed) return;
  core_.vpack_nz(blocks_->acquire().slice(0, block.rows, 0, columns), plain_.slice(0, block.rows, 0, columns));
  blocks_->commit();
  store(work, block, piece, blocks_->wait(), columns);
  blocks_->release();
}

void ToLeft::close(const TileWork& work, const RowBlock& block, index columns) {
  if (form_.packed) return pass(work, block, form_.pieces - 1, columns);
  if (direct_) return;
  blocks_->commit();
  const Tensor slot = blocks_->wait();
  for (index p = 0; p < form_.pieces; ++p) store(work, block, p, slot.row_slice(p * form_.block, block.rows), columns);
  blocks_->release();
}

void ToLeft::stage(index row, index rows, index first, index count) {
  if (direct_) return;
  const Tensor slot = staged_->acquire();
  for (index p = 0; p < form_.pieces; ++p) {
    const Tensor to = slot.slice(p * form_.staged_rows, rows, 0, count),
                 from = from_.slice(p * form_.rows + row, rows, first, count);
    if (form_.packed)
      core_.copy(to, from);
    else
      core_.nd2nz(to, from);
  }
  staged_->commit();
}

Tensor ToLeft::wait(index row, index rows, index first, index count) {
  const index all = (form_.pieces - 1) * apart() + rows;
  return direct_ ? from_.slice(row, all, first, count) : staged_->wait().slice(0, all, 0, count);
}

}  // namespace inlay::npu
