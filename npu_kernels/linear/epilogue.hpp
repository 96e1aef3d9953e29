// Sums become y on the vector unit, step by step; a step whose operands are not given is left out:
//
//   segments   C = ((C0 + C1) + C2) + ..                 of a depth that is cut (products.hpp)
//   halves     C = C00 + (C01 + C10 + C11)               Cij: part i of x times part j of w. Where C00, of the high
//                                                        halves, is not finite it is C: it alone has seen the
//                                                        infinities and NaN as they are
//   shift      C -= row_shift[t] weight_sum[o]           i32, wraps on its way
//              C -= row_rest[t] weight_zero[o]
//   shadow     y = C + shadow[t,o]                       f32 from here on, each operation rounded once
//   scale      y *= row_scale[t] column_scale[o]
//   bias       y += bias[o]
//   quantize   y = round(y / y_scale[o]) + y_zero[o]     whole numbers
//   round      to y's type, saturated where it is one of integers, and stored
#pragma once

#include <array>
#include <optional>

#include "npu_kernels/linear/layout.hpp"
#include "npu_kernels/linear/products.hpp"

namespace inlay::npu {

// Vectors of one element are for all rows or channels; those of rank 0 are not given.
struct LinearResult {
  NdTensor y;
  NdTensor weight_sum = {}, weight_zero = {}, column_scale = {}, bias = {}, y_scale = {}, y_zero = {};  // of channels
  NdTensor row_shift = {}, row_rest = {}, row_scale = {};                                               // of rows
  bool powers = false;  // scales are those of halves: 2^14 too large each (layout.hpp)
  Tensor shadow = {};   // in global memory, or none
};

// A tensor in global memory of which each tile is added to its sums.
class Addend {
 public:
  Addend(Core& core, const Tensor& all, Shape most);
  void add(const Tensor& to, const Tensor& c, const Sums& sums);

 private:
  Core& core_;
  Tensor all_;
  Ring tiles_;
};

class Epilogue {
 public:
  // `adds`: to the sums of the parts of the depth that are done.
  Epilogue(Core& core, Scratch& scratch, const LinearResult& result, const ProductPlan& plan, bool adds);
  // For `finish` alone: of up to `most` rows and columns, scaled by rows if at all, with few flags.
  Epilogue(Core& core, const LinearResult& result, Shape most) : Epilogue(core, result, most, 1) {}
  void operator()(const Sums& sums);
  // From the scale on; y is in f32, and is changed.
  void finish(const Tensor& y, index row, index column);

 private:
  enum OfChannels : std::size_t { weight_sum, weight_zero, column_scale, bias, y_scale, y_zero };
  enum OfRows : std::size_t { row_shift, row_rest, row_scale };
  static constexpr std::size_t of_channels = 6, of_rows = 3;

  Epilogue(Core& core, const LinearResult& result, Shape most, std::uint32_t ahead);
  bool has(OfChannels which) const { return from_channels_[which].present(); }
  bool has(OfRows which) const { return from_rows_[which].present(); }
  void load(index row, index rows, index column, index columns);
  // Each step gives the tile that holds its result: `y`, or what it was given where nothing is to be done.
  Tensor joined(const Sums& sums, const Tensor& y, const Tensor& other);
  Tensor shifted(Tensor c, const Tensor& work, const Tensor& acc);
  Tensor scaled(const Tensor& c, const Tensor& y, const Tensor& other);
  Tensor quantized(const Tensor& c, const Tensor& y, const Tensor& whole);
  void from_scale_on(Tensor c, const Tensor& y, const Tensor& other, index row, index column);

  Core& core_;
  NdTensor y_;
  bool powers_;
  index steps_ = 1;
  bool pairs_ = false;  // of halves; else steps are segments
  std::array<NdTensor, of_channels> from_channels_;
  std::array<NdTensor, of_rows> from_rows_;
  // What a tile is read with: of its channels a row each, of its rows a column each, and one pair of flags for either.
  std::optional<TupleRing<of_channels>> channels_;
  std::optional<TupleRing<of_rows>> rows_;
  std::array<Tensor, of_channels> channel_;  // of the tile at hand
  std::array<Tensor, of_rows> row_;
  std::optional<Addend> so_far_, shadow_;
  Ring out_;
  Tensor result_, other_, row_in_i32_;  // of a tile
  Tensor high_, rest_;                  // of the rows that are kept over several steps
};

// A layer whose right operand is made by its plan: what has to be done before the cores meet, the products and their
// epilogue. `meets`: the cores have prepared something else, and have not met yet.
struct Layer {
  Prepared left = {}, right = {};
  ProductPlan plan = {};
  LinearResult result = {};
};
void multiply_layer(Core& core, const Layer& layer, bool meets = false);
// A program of that work, which reads so many bytes of operands.
Program layer_program(const GlobalMemory& memory, const Layer& layer, index bytes, std::function<void(Core&)> body);

}  // namespace inlay::npu
