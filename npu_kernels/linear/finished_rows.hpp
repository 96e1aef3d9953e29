// The end of an epilogue: y += bias, rounded to its type, and stored.
//
//   load_vector  bias    vector  y + bias -> rounded    store  y
#pragma once

#include <optional>

#include "tile_machine/run/core.hpp"

namespace inlay::npu {

class FinishedRows {
 public:
  // Up to `most` rows and columns at once; bias of rank 0: none. `ahead` rows of bias may be on their way.
  FinishedRows(Core& core, const NdTensor& y, const NdTensor& bias, Shape most, std::uint32_t ahead = 1);
  void operator()(const Tensor& y, index row, index column);

 private:
  Core& core_;
  NdTensor y_, bias_;
  Ring out_;
  std::optional<Ring> biases_;
};

}  // namespace inlay::npu
