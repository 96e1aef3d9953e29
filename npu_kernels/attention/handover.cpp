#include "npu_kernels/attention/handover.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

UnitToVector::UnitToVector(Core& core, const std::string& name, const MatrixTiles& tiles, index columns, bool of_keys,
                           DType dtype, index blocks, const Tensor& workspace)
    : core_(core),
      columns_(columns),
      of_keys_(of_keys),
      direct_(drains_to_vector(core.device())),
      tiles_(core.ring(name, Space::vector,
                       {std::max<index>(direct_ ? tiles.most : tiles.block, 2), std::max<index>(columns, 2)}, dtype,
                       {direct_ ? 2u : static_cast<std::uint32_t>(blocks), direct_ ? Pipe::drain : Pipe::load_vector,
                        Pipe::vector})) {
  if (direct_) return;
  through_.emplace(workspace_ring(core, name + " in global memory", workspace, tiles.rows, scores_ahead, Pipe::drain,
                                  Pipe::load_vector));
}

void UnitToVector::load(const KeyWork& work, const std::vector<RowBlock>& blocks, std::size_t ahead) {
  if (direct_) return;
  for (; loaded_ < std::min(ahead, blocks.size()); ++loaded_) {
    const RowBlock& block = blocks[loaded_];
    core_.copy(tiles_.acquire().slice(0, block.rows, 0, columns_of(block)),
               tile_.slice(work.mine.first + block.first, block.rows, 0, columns_of(block)));
    tiles_.commit();
    if (loaded_ + 1 == blocks.size()) through_->release();
  }
}

UnitToLeft::UnitToLeft(Core& core, const MatrixPlan& plan, const Tensor& workspace)
    : core_(core),
      pieces_(plan.weight_pieces),
      rows_(plan.tiles.rows),
      block_(round_up(plan.tiles.block, std::max<index>(core.device().matrix.m_granule, 2))),
      product_rows_(plan.tiles.product_rows),
      packed_(plan.packed),
      in_place_(plan.packed && plan.narrow),
      direct_(core.device().feeds_are_views() && core.device().same_memory(Space::vector, Space::left)),
      tiles_(core.ring(
          "weights", Space::vector,
          {std::max<index>((packed_ ? 1 : pieces_) * (direct_ ? rows_ : block_), 2), plan.tiles.tokens}, DType::f16,
          {direct_ ? static_cast<std::uint32_t>(weights_ahead) : 2u, Pipe::vector, direct_ ? Pipe::feed : Pipe::store},
          packed_ ? Layout::nz : Layout::nd)) {
  if (direct_) return;
  if (packed_ && !in_place_)
    plain_ = core.alloc("weights in rows", Space::vector, {block_, plan.tiles.tokens}, DType::f16);
  through_.emplace(workspace_ring(core, "weights in global memory", workspace, pieces_ * rows_, weights_ahead,
                                  Pipe::store, Pipe::load));
  staged_.emplace(core.ring("staged weights", Space::staging, {pieces_ * product_rows_, plan.tiles.part()}, DType::f16,
                            {2, Pipe::load, Pipe::feed}, Layout::nz));
}

// Rows of the workspace, side by side, as blocks of columns.
Tensor UnitToLeft::as_blocks(const Tensor& slot) const {
  if (!packed_) return slot;
  Tensor blocks = slot;
  blocks.layout = Layout::nz;
  blocks.block = core_.device().fractal_block(DType::f16);
  blocks.pitch = slot.rows();
  return blocks;
}

void UnitToLeft::open() { tile_ = direct_ ? tiles_.acquire() : as_blocks(through_->acquire()); }

void UnitToLeft::open(const RowBlock&, const Tensor& scores) {
  if (in_place_)
    plain_ = scores;
  else if (!direct_ && !packed_)
    plain_ = tiles_.acquire();
}

Tensor UnitToLeft::piece(const RowBlock& block, index piece) {
  if (direct_) return tile_.slice(piece * rows_ + block.first, block.rows, 0, block.keys);
  return plain_.slice(packed_ ? 0 : piece * block_, block.rows, 0, block.keys);
}

void UnitToLeft::store(const KeyWork& work, const RowBlock& block, index piece, const Tensor& from) {
  const Tensor to = tile_.slice(piece * rows_ + work.mine.first + block.first, block.rows, 0, block.keys);
  core_.copy(to, from.slice(0, block.rows, 0, block.keys));
}

void UnitToLeft::pass(const KeyWork& work, const RowBlock& block, index piece) {
  if (!packed_) return;
  core_.vpack_nz(tiles_.acquire().slice(0, block.rows, 0, block.keys), plain_.slice(0, block.rows, 0, block.keys));
  tiles_.commit();
  store(work, block, piece, tiles_.wait());
  tiles_.release();
}

void UnitToLeft::close(const KeyWork& work, const RowBlock& block) {
  if (packed_) return pass(work, block, pieces_ - 1);
  if (direct_) return;
  tiles_.commit();
  const Tensor slot = tiles_.wait();
  for (index p = 0; p < pieces_; ++p) store(work, block, p, slot.row_slice(p * block_, block.rows));
  tiles_.release();
}

void UnitToLeft::wait_tile() { from_ = direct_ ? tiles_.wait() : as_blocks(through_->wait()); }

void UnitToLeft::stage(index row, index rows, index first, index count) {
  if (direct_) return;
  const Tensor slot = staged_->acquire();
  for (index p = 0; p < pieces_; ++p) {
    const Tensor to = slot.slice(p * product_rows_, rows, 0, count),
                 from = from_.slice(p * rows_ + row, rows, first, count);
    if (packed_)
      core_.copy(to, from);
    else
      core_.nd2nz(to, from);
  }
  staged_->commit();
}

Tensor UnitToLeft::wait(index row, index rows, index first, index count) {
  if (direct_) return from_.slice(row, (pieces_ - 1) * rows_ + rows, first, count);
  return staged_->wait().slice(0, (pieces_ - 1) * product_rows_ + rows, 0, count);
}

}  // namespace inlay::npu
