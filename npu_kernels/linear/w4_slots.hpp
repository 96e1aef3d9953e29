// x in the order of the slots: x'[t,s] = x[t, perm[s]], 0 where perm[s] is -1, in f32.
//
//   load_vector  some columns of x, perm    vector  gather, and what lies in other columns is zero; sum    store  x'
#pragma once

#include "npu_kernels/linear/row_reader.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

struct W4Slots {
  RowSource x;
  NdTensor perm;
  Tensor slots;  // [rows, slots] f32, workspace
};

void make_slots(Core& core, const W4Slots& to);

}  // namespace inlay::npu
