// Finished sums on their way from the accumulator to the vector unit: drained into its memory where the device has
// such a path, else through a workspace in global memory, where each vector stream of the core takes its rows.
//
//   drain   | tile |  --->  vector | rows | rows | ..          or    drain --> global --load_vector--> vector
#pragma once

#include <deque>
#include <optional>

#include "npu_kernels/linear/products.hpp"

namespace inlay::npu {

class SumsToVector {
 public:
  SumsToVector(Core& core, const ProductTiles& tiles, DType dtype, const Tensor& workspace);
  // Of the vector unit's memory.
  static index bytes(const Device& device, const ProductTiles& tiles, DType dtype);
  // The tile of m x n sums that `sums` has committed goes to the consumer, a few rows after the others.
  void pass(Ring& sums, index m, index n, const Sums& where, const Consumer& consume);
  // What is still on its way goes to the consumer, too.
  void finish(const Consumer& consume);

 private:
  void consume_oldest(const Consumer& consume);

  Core& core_;
  index rows_, unit_;
  bool direct_;
  Ring tiles_;
  std::optional<Ring> through_;
  std::deque<Sums> drained_;  // one behind: the vector unit has work while the matrix unit makes the next sums
};

}  // namespace inlay::npu
