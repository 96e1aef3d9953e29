// Between the matrix unit and the vector units that share a unit's rows: rings that take the device's shortest way.
// Where a path or a shared memory joins the two, tiles take it; else they pass through a workspace in global memory.
#pragma once

#include <optional>
#include <string>

#include "npu_kernels/backend/handover.hpp"
#include "npu_kernels/attention/problem.hpp"

namespace inlay::npu {

inline constexpr index weights_ahead = 3;  // tiles of them on their way: vec1 is two ahead of mm2

// Scores or products: each vector unit gets its rows.
class UnitToVector {
 public:
  UnitToVector(Core& core, const std::string& name, Shape shape, index most, const Tensor& workspace);
  Tensor acquire() { return direct_ ? tiles_.acquire() : through_->acquire(); }
  void commit(RowRange mine, index columns);
  Tensor wait() { return tiles_.wait(); }
  void release() { tiles_.release(); }

 private:
  Core& core_;
  bool direct_;
  Ring tiles_;
  std::optional<Ring> through_;
};

// Weights in pieces, for the left operand of mm2. The vector unit's tile has piece p from row p * most() on, the
// operand from row p * rows.
class UnitToLeft {
 public:
  UnitToLeft(Core& core, index pieces, Shape shape, index most, const Tensor& workspace);
  Tensor acquire() { return tiles_.acquire(); }
  void commit(RowRange mine, index columns);
  Tensor wait(index rows, index columns);
  void release() { direct_ ? tiles_.release() : staged_->release(); }
  index most() const { return most_; }

 private:
  Core& core_;
  const index pieces_, rows_, most_;
  bool direct_;
  Ring tiles_;
  std::optional<Ring> through_, staged_;
};

}  // namespace inlay::npu
