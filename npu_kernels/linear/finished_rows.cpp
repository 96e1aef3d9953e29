#include "npu_kernels/linear/finished_rows.hpp"

namespace inlay::npu {

FinishedRows::FinishedRows(Core& core, const NdTensor& y, const NdTensor& bias, Shape most, std::uint32_t ahead)
    : core_(core),
      y_(y),
      bias_(bias),
      out_(core.ring("y", Space::vector, most, y.first.dtype, {2, Pipe::vector, Pipe::store})) {
  if (bias.present())
    biases_.emplace(core.ring("bias", Space::vector, {1, most.columns}, bias.first.dtype,
                              {ahead, Pipe::load_vector, Pipe::vector}));
}

void FinishedRows::operator()(const Tensor& y, index row, index column) {
  const index m = y.rows(), n = y.columns();
  if (biases_) {
    core_.copy(by_axes(biases_->acquire().slice(0, 1, 0, n)).at(0, 0), bias_.slice(0, column, n));
    biases_->commit();
    core_.vbinary(VectorOp::add, y, y, biases_->wait().slice(0, 1, 0, n));
    biases_->release();
  }
  core_.vcast(out_.acquire().slice(0, m, 0, n), y);
  out_.commit();
  core_.copy(y_.slice(0, row, m).slice(1, column, n), by_axes(out_.wait().slice(0, m, 0, n)));
  out_.release();
}

}  // namespace inlay::npu
