#include "npu_kernels/attention/handover.hpp"

namespace inlay::npu {

ToVector::ToVector(Core& core, const std::string& name, Shape shape, RowRange mine, const Tensor& workspace)
    : core_(core),
      mine_(mine),
      direct_(drains_to_vector(core.device())),
      tiles_(core.ring(name, Space::vector, {mine.count, shape.columns}, DType::f32,
                       {2, direct_ ? Pipe::drain : Pipe::load_vector, Pipe::vector})) {
  if (direct_) return;
  through_.emplace(
      workspace_ring(core, name + " in global memory", workspace, shape.rows, 2, Pipe::drain, Pipe::load_vector));
}

void ToVector::commit(index columns) {
  if (direct_) return tiles_.commit();
  through_->commit();
  core_.copy(tiles_.acquire().slice(0, mine_.count, 0, columns),
             through_->wait().slice(mine_.first, mine_.count, 0, columns));
  tiles_.commit();
  through_->release();
}

ToLeft::ToLeft(Core& core, index depth, Shape shape, RowRange mine, DType dtype, const Tensor& workspace)
    : core_(core),
      mine_(mine),
      direct_(core.device().feeds_are_views() && core.device().same_memory(Space::vector, Space::left)),
      tiles_(core.ring("probabilities", Space::vector, {mine.count, shape.columns}, dtype,
                       {static_cast<std::uint32_t>(depth), Pipe::vector, direct_ ? Pipe::feed : Pipe::store})) {
  if (direct_) return;
  through_.emplace(
      workspace_ring(core, "probabilities in global memory", workspace, shape.rows, depth, Pipe::store, Pipe::load));
  staged_.emplace(
      core.ring("staged probabilities", Space::staging, shape, dtype, {2, Pipe::load, Pipe::feed}, Layout::nz));
}

void ToLeft::commit(index columns) {
  tiles_.commit();
  if (direct_) return;
  core_.copy(through_->acquire().slice(mine_.first, mine_.count, 0, columns),
             tiles_.wait().slice(0, mine_.count, 0, columns));
  through_->commit();
  tiles_.release();
}

Tensor ToLeft::wait(index rows, index columns) {
  if (direct_) return tiles_.wait();
  core_.nd2nz(staged_->acquire().slice(0, rows, 0, columns), through_->wait().slice(0, rows, 0, columns));
  staged_->commit();
  through_->release();
  return staged_->wait();
}

}  // namespace inlay::npu
