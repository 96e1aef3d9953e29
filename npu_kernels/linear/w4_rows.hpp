// x of a layer of codes, on its way to the products of groups (w4_groups.hpp):
//
//   slots     x'[t,s] = x[t, perm[s]], 0 where perm[s] is -1, in f32
//   bytes     each segment as bytes times a step
//   sums      X of each group
//   spread    each row as a row for each group of a product
#pragma once

#include "npu_kernels/linear/w4_groups.hpp"

namespace inlay::npu {

struct W4Slots {
  RowSource x;
  NdTensor perm = {};
  Tensor slots = {};  // [rows, slots] f32, workspace
};

void make_slots(Core& core, const W4Slots& to);

// x by segments as bytes, in rows of f16; each group of a segment has its step and the sum of all its bytes. A row that
// is not finite has steps of NaN; a segment whose step is subnormal counts as zeros.
void make_bytes(Core& core, const W4Groups& op);

// X, of x times what its halves were scaled by.
void make_sums(Core& core, const W4Groups& op);

// Tiles of spread rows (MakeTile), from those of x that are in blocks.
class SpreadRows {
 public:
  SpreadRows(Core& core, Scratch& scratch, const W4Groups& op);
  // Rows and slots of x at once; in a tile each row has `spread` times `parts`.
  static RowTile piece(const Device& device, const W4Groups& op);
  void operator()(const Tensor& tile);  // all of them (MakeLeft)
  void operator()(const Tensor& tile, index row, index rows, index k, index depth);

 private:
  void spread(const Tensor& tile, const Tensor& x, index begin, index depth);

  Core& core_;
  const W4Groups& op_;
  index block_;
  RowTile piece_;
  Ring rows_;
  Tensor mine_;  // [groups that share blocks, their slots]: not 0 where the slot is the group's
};

void store_spread_rows(Core& core, const W4Groups& op);

}  // namespace inlay::npu
