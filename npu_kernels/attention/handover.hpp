// Between the matrix unit and the vector unit: rings that take the device's shortest way. Where a path or a
// shared memory joins the two, tiles take it; else they pass through a workspace in global memory.
#pragma once

#include <optional>
#include <string>

#include "npu_kernels/backend/handover.hpp"

namespace inlay::npu {

// Tiles on their way from the accumulator to the vector unit: drained into its memory, or where there is no
// such path through global memory, where each vector stream takes its rows.
class ToVector {
 public:
  ToVector(Core& core, const std::string& name, Shape shape, RowRange mine, const Tensor& workspace);
  Tensor acquire() { return direct_ ? tiles_.acquire() : through_->acquire(); }
  void commit(index columns);
  Tensor wait() { return tiles_.wait(); }
  void release() { tiles_.release(); }

 private:
  Core& core_;
  RowRange mine_;
  bool direct_;
  Ring tiles_;
  std::optional<Ring> through_;
};

// Probabilities on their way from the vector unit to the left operand of mm2: a view of the vector unit's memory
// where left is that memory, else through global memory into staging.
class ToLeft {
 public:
  ToLeft(Core& core, index depth, Shape shape, RowRange mine, DType dtype, const Tensor& workspace);
  Tensor acquire() { return tiles_.acquire(); }
  void commit(index columns);
  Tensor wait(index rows, index columns);
  void release() { direct_ ? tiles_.release() : staged_->release(); }

 private:
  Core& core_;
  RowRange mine_;
  bool direct_;
  Ring tiles_;
  std::optional<Ring> through_, staged_;
};

}  // namespace inlay::npu
