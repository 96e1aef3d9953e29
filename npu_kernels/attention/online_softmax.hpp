// Softmax of rows whose columns come in tiles, one after the other:
//
//   m = max(m_before, max(scale s))    s' = exp(scale s - m)    alpha = exp(m_before - m)    total = alpha total + sum
//   s'
//
// What a reader has summed up with weights of earlier tiles is to be multiplied by alpha.
#pragma once

#include "npu_kernels/machine/run/core.hpp"

namespace inlay::npu {

class OnlineSoftmax {
 public:
  OnlineSoftmax(Core& core, index rows);
  void begin();  // of the rows' first tile
  // s becomes s'. The caller has a chain of the vector unit open.
  void tile(const Tensor& s, const Tensor& alpha, float scale);
  const Tensor& maximum() const { return maximum_; }
  const Tensor& total() const { return total_; }

 private:
  Core& core_;
  Tensor maximum_, total_, fresh_maximum_, tile_maximum_, tile_total_;
};

}  // namespace inlay::npu
