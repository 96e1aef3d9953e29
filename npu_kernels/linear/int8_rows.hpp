// Rows of x as int8, and what each row's sums are read with:
//
//   q[t,i]    blocks, i8       x itself (u8 less 128), or saturate(round(x / scale) + zero)
//   scale[t]  f32              as it was given with a q; else NaN where the row is not finite
//   shift[t]  i32              the zero point of q, where there is one
//   rest[t]   i32              sum_i (q - shift), for weights with zero points
//   clipped   [rows, depth]    what saturation took, for shadow outliers
//
//   load_vector  rows    vector  largest and smallest, scale and zero point; quotient, rounding    store  all of these
#pragma once

#include <inlay/ops/linear_int8.hpp>

#include "npu_kernels/linear/operand.hpp"

namespace inlay::npu {

struct Int8Rows {
  NdTensor x = {}, x_scale = {}, x_zero = {};  // rank 0: not given
  DType dtype = DType::f32;                    // of x
  index rows = 0, depth = 0;
  bool asymmetric = false, with_rest = false, in_blocks = true;

  Operand q = {};
  NdTensor scale = {}, shift = {}, rest = {};              // one for each row, or one for all; rank 0: not wanted
  Tensor clipped = {};                                     // of no buffer: not wanted
  bool reads_x() const { return in_blocks || with_rest; }  // else it is q, with a scale and a shift
  bool floats() const { return dtype != DType::i8 && dtype != DType::u8; }
  bool prepared() const { return reads_x() || shifts(); }                               // else all is as it was given
  bool shifts() const { return asymmetric || x_zero.present() || dtype == DType::u8; }  // else it is 0
};

Int8Rows int8_rows(GlobalMemory& memory, const LinearInt8<Host>& op);
void make_int8_rows(Core& core, const Int8Rows& to);

}  // namespace inlay::npu
