// Codes go to the matrix unit as the small integers that they are, each group of slots has sums of its own, and scales
// come after them:
//
//   C[t,g,n] = sum over the slots s of g of x[t,s] (q[n,s] - middle)                       matrix unit
//   y[t,n]   = sum over g of (scale[n,g] C[t,g,n] + shift[n,g] X[t,g]) + bias[n]           vector unit
//   X[t,g]   = sum over the slots s of g of x[t,s],   shift = (middle - zero) scale; or offset, with a middle of 0
//
// Symmetric weights have no shift. int8_activations: each segment of x (a group of the weight, cut every 128 slots) is
// bytes times a step of its own, and f16 holds bytes, too. With codes as they are, or less their middle where that is
// all, their sums stay below 2^24 and are exact; the step comes last:
//
//   x = step[t,g] b[t,s],   b = round(x / step),   step = max |x| / 127;   C and X of b,   y = sum of step (.. + ..)
//
// Where 128 slots cut groups in unequal parts, a segment has several sums, which are added up first.
//
// A product of few rows takes the unit as long as one of many: then `spread` groups are rows of one product and leave
// in one drain, each with zeros where the others have their slots,
//
//                  slots of g0   g1      g2      g3
//   row of g0    |     x      |   0   |   0   |   0   |         x of f32: two rows each, high and low (layout.hpp)
//   row of g1    |     0      |   x   |   0   |   0   |
//
// and a row of y has the same bits for any spread: a zero changes no sum. Groups that share a block of the unit are
// always spread.
#pragma once

#include "npu_kernels/linear/epilogue.hpp"
#include "npu_kernels/linear/w4_weight.hpp"

namespace inlay::npu {

constexpr index longest_segment = 128;  // of bytes

struct W4Groups {
  RowSource x = {};       // by slots: floats, or bytes in f16
  RowSource floats = {};  // that became bytes
  W4Weight weight = {};
  bool bytes = false;    // x is bytes with a step for each segment
  index group = 1;       // slots that have sums of their own: the weight's group, or what divides all segments
  index parts = 1;       // of x
  index spread = 1;      // groups of a product
  index sharing = 1;     // of them, in whole blocks of the unit: the least spread
  Operand rows = {};     // [x rows, parts], blocks
  Prepared halves = {};  // its parts
  Operand left = {};     // [x rows, spread, parts]; `rows` where nothing is spread, no blocks where it is made
  Prepared codes = {};
  ProductPlan plan = {};
  Tensor sums = {}, steps = {};  // [groups, rows] f32, or none: X, steps of bytes
  LinearResult result = {};

  index groups() const { return ceil_div(x.depth, group); }
  index groups_of_scale() const { return ceil_div(weight.group, group); }  // that share the weight's scales
  bool less_middle() const { return weight.offsets.count == 0 && !(bytes && shifts()); }
  bool shifts() const { return weight.shifts(); }
  bool opens_segment(index g) const { return starts_segment(g * group); }
  bool closes_segment(index g) const { return (g + 1) * group >= x.depth || starts_segment((g + 1) * group); }
  bool cuts_segments() const {
    return bytes && group < longest_segment && group < weight.group && weight.scales.depth > 1;
  }
  bool starts_segment(index slot) const { return slot % longest_segment == 0 || slot % weight.group == 0; }
  index slots_of_product() const { return spread * group; }
};

W4Groups w4_groups(GlobalMemory& memory, const RowSource& x, const W4Weight& weight, const LinearResult& result,
                   bool bytes);
void multiply_w4_groups(Core& core, const W4Groups& op);

// Sums of groups, scaled and added up in the order of the groups, whatever the products were.
Consumer w4_group_epilogue(Core& core, Scratch& scratch, const W4Groups& op);
// Of the vector unit's memory, the rows of sums on their way to it among them.
index w4_group_epilogue_bytes(const Device& device, const W4Groups& op);

// x on its way to the products (w4_rows.cpp). By slots: x'[t,s] = x[t, perm[s]], 0 where perm[s] is -1, in f32.
struct W4Slots {
  RowSource x;
  NdTensor perm = {};
  Tensor slots = {};  // [rows, slots] f32, workspace
};
void make_slots(Core& core, const W4Slots& to);
// By segments as bytes, in rows of f16; each group of a segment has its step and the sum of all its bytes. A row that
// is not finite has steps of NaN; a segment whose step is subnormal counts as zeros.
void make_bytes(Core& core, const W4Groups& op);
// X, of x times what its halves were scaled by.
void make_sums(Core& core, const W4Groups& op);
// Spread rows, made from those of x that are in blocks: all of them in staging, or in global memory.
MakeLeft spread_rows(Core& core, Scratch& scratch, const W4Groups& op);
void store_spread_rows(Core& core, const W4Groups& op);

}  // namespace inlay::npu
