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
  // A sum of so many rows and columns, of `max_rows` and `max_columns`.
  void begin(index max_rows, index max_columns, index rows, index columns);
  // sum (+)= left * right, or right's transpose, over pieces of left `apart` rows apart.
  void add(const Tensor& left, index pieces, index apart, const Tensor& right, bool transpose);
  // Of two pieces each its own sum: of a sum of apart + rows rows the first `rows`, and those from `apart` on.
  void add_stacked(const Tensor& left, index apart, const Tensor& right);
  void drain(const Tensor& to, float scale = 1);
  void drain_stacked(const Tensor& to, const Tensor& low, index apart);

 private:
  Tensor window(const Tensor& slot) const;
  template <class Visit> void each_depth(const Tensor& right, bool transpose, Visit&& visit);
  void multiply(const Tensor& sum, const Tensor& left, const Tensor& right);
  Tensor finished();
  void release();

  Core& core_;
  const index depth_;
  Ring left_, right_;
  std::optional<Ring> sums_;  // none where one unit multiplies and drains, in order: one accumulator
  index max_rows_ = 0, max_columns_ = 0, rows_ = 0, columns_ = 0;
  bool first_ = true;
  Tensor accumulator_, sum_;
};

}  // namespace inlay::npu
