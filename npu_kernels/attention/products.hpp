// Products of a unit's rows on the matrix unit: steps of the depth through left and right into an accumulator, and out.
//
//   feed     left, right   left, right ..
//   matrix                 sum += left right ..
//   drain                                         scale * sum -> where the vector units find it
#pragma once

#include <optional>

#include "npu_kernels/attention/plan.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

class UnitProducts {
 public:
  UnitProducts(Core& core, const Tiles& tiles);
  // A sum of so many rows and columns, of `max_rows` and `max_columns`; stacked: of each of two pieces of left its own,
  // that of the second `stacked` rows behind the other.
  void begin(index max_rows, index max_columns, index rows, index columns, index stacked = 0);
  // sum (+)= left * right, or right's transpose, over pieces of left `apart` rows apart.
  void add(const Tensor& left, index pieces, index apart, const Tensor& right, bool transpose);
  void drain(const Tensor& to, float scale = 1);

 private:
  Tensor window(const Tensor& slot) const;
  void multiply(const Tensor& sum, const Tensor& left, const Tensor& right, bool init);

  Core& core_;
  const index depth_;
  Ring left_, right_;
  std::optional<Ring> sums_;  // none where one unit multiplies and drains, in order: one accumulator
  index max_rows_ = 0, max_columns_ = 0, rows_ = 0, columns_ = 0, stacked_ = 0;
  bool first_ = true;
  Tensor accumulator_, sum_;
};

}  // namespace inlay::npu
