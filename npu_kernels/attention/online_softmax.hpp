// Softmax of rows whose columns come in tiles, one after the other:
//
//   m = max(m_before, max(scale s))    s' = exp(scale s - m)    alpha = exp(m_before - m)    total = alpha total + sum
//   s'
//
// What a reader has summed up with weights of earlier tiles is to be multiplied by alpha.
#pragma once

#include <limits>

#include "npu_kernels/machine/run/core.hpp"

namespace inlay::npu {

// Maxima start here rather than at -inf: what is -inf itself then weighs exp(-inf - lowest) = 0.
inline constexpr float lowest_score = std::numeric_limits<float>::lowest();

// inverse = 1 / total, or 0 where nothing was seen; `none` is a column of their rows, `zero` one element.
void inverse_of(Core& core, const Tensor& inverse, const Tensor& total, const Tensor& none, const Tensor& zero);

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
