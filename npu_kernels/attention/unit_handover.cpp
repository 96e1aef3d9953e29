#include "npu_kernels/attention/unit_handover.hpp"

#include <algorithm>

namespace inlay::npu {

UnitToVector::UnitToVector(Core& core, const std::string& name, Shape shape, index most, const Tensor& workspace)
    : core_(core),
      direct_(drains_to_vector(core.device())),
      tiles_(core.ring(name, Space::vector, {std::max<index>(most, 2), std::max<index>(shape.columns, 2)}, DType::f32,
                       {2, direct_ ? Pipe::drain : Pipe::load_vector, Pipe::vector})) {
  if (direct_) return;
  through_.emplace(
      workspace_ring(core, name + " in global memory", workspace, shape.rows, 2, Pipe::drain, Pipe::load_vector));
}

void UnitToVector::commit(RowRange mine, index columns) {
  if (direct_) return tiles_.commit();
  through_->commit();
  const Tensor tile = tiles_.acquire(), from = through_->wait();
  if (mine.count > 0) core_.copy(tile.slice(0, mine.count, 0, columns), from.slice(mine.first, mine.count, 0, columns));
  tiles_.commit();
  through_->release();
}

UnitToLeft::UnitToLeft(Core& core, index pieces, Shape shape, index most, const Tensor& workspace)
    : core_(core),
      pieces_(pieces),
      rows_(shape.rows),
      most_(core.device().feeds_are_views() ? shape.rows : most),
      direct_(core.device().feeds_are_views() && core.device().same_memory(Space::vector, Space::left)),
      tiles_(core.ring("weights", Space::vector, {std::max<index>(pieces * most_, 2), shape.columns}, DType::f16,
                       {direct_ ? static_cast<std::uint32_t>(weights_ahead) : 2u, Pipe::vector,
                        direct_ ? Pipe::feed : Pipe::store})) {
  if (direct_) return;
  const Shape all{pieces * shape.rows, shape.columns};
  through_.emplace(
      workspace_ring(core, "weights in global memory", workspace, all.rows, weights_ahead, Pipe::store, Pipe::load));
  staged_.emplace(
      core.ring("staged weights", Space::staging, all, DType::f16, {2, Pipe::load, Pipe::feed}, Layout::nz));
}

void UnitToLeft::commit(RowRange mine, index columns) {
  tiles_.commit();
  if (direct_) return;
  const Tensor to = through_->acquire(), tile = tiles_.wait();
  for (index piece = 0; piece < pieces_ && mine.count > 0; ++piece)
    core_.copy(to.slice(piece * rows_ + mine.first, mine.count, 0, columns),
               tile.slice(piece * most_, mine.count, 0, columns));
  through_->commit();
  tiles_.release();
}

Tensor UnitToLeft::wait(index rows, index columns) {
  if (direct_) return tiles_.wait();
  const Tensor staged = staged_->acquire(), from = through_->wait();
  for (index piece = 0; piece < pieces_; ++piece)
    core_.nd2nz(staged.slice(piece * rows_, rows, 0, columns), from.slice(piece * rows_, rows, 0, columns));
  staged_->commit();
  through_->release();
  return staged_->wait();
}

}  // namespace inlay::npu
