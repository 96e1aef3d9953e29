// Softmax of rows whose columns come in tiles, one after the other:
//
//   m = max(m_before, max(s))    s' = exp(s - m)    alpha = exp(m_before - m)    total = alpha total + sum s'
//
// What a reader has summed up with weights of earlier tiles is to be multiplied by alpha.
#pragma once

#include <limits>

#include "tile_machine/run/core.hpp"

namespace inlay::npu {

// Maxima start here rather than at -inf: what is -inf itself then weighs exp(-inf - lowest) = 0.
inline constexpr float lowest_score = std::numeric_limits<float>::lowest();

// inverse = 1 / total, or 0 where nothing was seen; `none` is a column of their rows, `zero` one element.
void inverse_of(Core& core, const Tensor& inverse, const Tensor& total, const Tensor& none, const Tensor& zero);

class OnlineSoftmax {
 public:
  // Scores of f32, or of f16; maxima and totals are f32. A positive scale of scores not yet applied: exp(scale (s -
  // m)).
  OnlineSoftmax(Core& core, index rows, DType scores = DType::f32, float scale = 1);
  void begin();  // of the rows' first tile
  // A tile: s' of some rows, from `first` on, in `weights`, which may be s; s is overwritten. Then their sums; then,
  // once for all rows of it, alpha. The caller has a chain of the vector unit open.
  void weigh(const Tensor& s, const Tensor& weights, index first);
  void sum(const Tensor& weights, index first);
  // .. of weights in f16 that nobody needs any more, of tiles of `columns`: folded twice, column j onto j + half.
  void fold_and_sum(const Tensor& weights, index first, index columns);
  void finish(const Tensor& alpha);
  // .. of all rows at once, in place.
  void tile(const Tensor& s, const Tensor& alpha);
  const Tensor& maximum() const { return maximum_; }
  const Tensor& total() const { return total_; }

 private:
  Core& core_;
  const float scale_;
  Tensor maximum_, total_, fresh_maximum_, tile_maximum_, tile_total_;
};

}  // namespace inlay::npu
