// Integer sums become y, on the vector unit:
//
//   acc = C - shift[t] weight_sum[o] - rest[t] weight_zero[o]                     i32, wraps on its way; what is 0 is
//                                                                                 left out
//   y   = (acc + shadow) (scale[t] weight_scale[o]) + bias[o]                     f32, each step rounded once
//   y   = saturate(round(y / y_scale) + y_zero)                                   where y is i8 or u8
#pragma once

#include <optional>

#include "npu_kernels/linear/int8_rows.hpp"
#include "npu_kernels/linear/products.hpp"
#include "npu_kernels/linear/scratch.hpp"

namespace inlay::npu {

struct Int8Result {
  NdTensor y, weight_sum, weight_scale, weight_zero, bias, y_scale, y_zero;  // rank 0: not given
  NdTensor scale, shift, rest;                                               // of rows
  Tensor shadow;                                                             // in global memory, or none
};

class Int8Epilogue {
 public:
  Int8Epilogue(Core& core, Scratch& scratch, const Int8Result& result, const ProductTiles& tiles);
  void operator()(const Sums& sums);

 private:
  // What a tile is read with: of its channels a row each, of its rows a column each. One pair of flags for all.
  enum OfChannels : std::size_t { weight_sum, weight_scale, weight_zero, bias, y_scale, y_zero };
  enum OfRows : std::size_t { scale, shift, rest };
  static constexpr std::size_t of_channels = 6, of_rows = 3;

  void load(const Sums& sums);
  Tensor exact(const Tensor& acc, const Tensor& work, const Tensor& sums);
  void scaled(const Tensor& y, const Tensor& work, const Sums& sums);
  void requantized(const Tensor& whole, const Tensor& y);

  Core& core_;
  NdTensor y_;
  Tensor shadow_;
  std::array<NdTensor, of_channels> from_channels_;
  std::array<NdTensor, of_rows> from_rows_;
  Shape shape_;
  Tensor acc_, work_, zeros_;
  TupleRing<of_channels> channels_;
  TupleRing<of_rows> rows_;
  std::optional<Ring> shadows_;
  Ring out_;
  std::array<Tensor, of_channels> channel_;  // of the tile at hand
  std::array<Tensor, of_rows> row_;
};

}  // namespace inlay::npu
