// int8_activations: each segment of x (a group, cut into blocks of 128 slots) becomes bytes with a step of its own, and
// its products with the codes, less their middle, are exact in int32:
//
//   xq = round(x / step), step = max |x| / 127
//   y[t,n] = sum over segments  step[t] (scale[n] (C[t,n] + middle sum xq) + offset[n] sum xq) + bias[n]
//
// Where the weight is symmetric, the offset takes the middle away: both terms are left out.
#pragma once

#include "npu_kernels/linear/finished_rows.hpp"
#include "npu_kernels/linear/products.hpp"
#include "npu_kernels/linear/w4_rows.hpp"

namespace inlay::npu {

// Slots [begin, end) as the segments are cut, and where they lie in operands whose segments start with blocks.
struct W4Segment {
  index begin, depth, first, group;
};
std::vector<W4Segment> w4_segments(index slots, index group, index block);

struct W4Int8 {
  RowSource x;  // by slots
  W4Weight weight;
  std::vector<W4Segment> segments;
  Operand bytes, codes;
  Tensor steps, sums;      // [segments, rows] f32
  Tensor scales, offsets;  // [groups, channels, whole panels] f32; offsets of no buffer: symmetric
  NdTensor bias, y;        // bias of rank 0: none
};

W4Int8 w4_int8(GlobalMemory& memory, const RowSource& x, const W4Weight& weight);
void make_w4_int8(Core& core, const W4Int8& to);  // bytes of x, codes as bytes, scales in f32

class W4Epilogue {
 public:
  W4Epilogue(Core& core, Scratch& scratch, const W4Int8& op, const ProductTiles& tiles);
  void operator()(const Sums& sums);

 private:
  Core& core_;
  const W4Int8& op_;
  bool whole_;  // one step: nothing is kept
  Tensor kept_, dot_, shift_;
  TupleRing<2> rows_, channels_;  // steps and sums of x; scales and offsets
  FinishedRows finished_;
};

}  // namespace inlay::npu
