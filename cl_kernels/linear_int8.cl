// acc[t,o] = sum_i (q[t,i] - x_zero[t]) * (w[o,i] - weight_zero[o])                                  int32, exact
// y[t,o]   = acc[t,o] * (x_scale[t] * weight_scale[o]) + bias[o]         Dettmers et al., 2022; Xiao et al., 2023
//
// Two kernels. `prepare` makes signed bytes of each token, u8 less 128, and says how its sums become outputs:
//
//   q        [tokens, k up to a multiple of 4]       zeros beyond k; in the cpu shape in tiles (int8_cpu.clh)
//   clipped  the same, f32, with shadow outliers     what saturation took from an activation, in steps;
//            x 2 in the cpu shape                    or a list of those it took from: | i | steps |
//   tokens   [tokens, 4]    | scale | shift | rest | outliers: how many in the cpu shape |
//
//   acc = sum q w - shift * sum w - rest * weight_zero
//
// `product` multiplies: weights as they are packed, in panels of 16 channels, lines of 4 inputs a channel.
//
//   X      type of x: the program has `prepare`
//   ROWS   tokens that a weight is multiplied with while it is in registers: the program has `product`
//
// gpu report, one row: -D ROWS=1
// gpu report, preparing: -D X=f32
#include "cl_kernels/linear/panels.clh"
#include "cl_kernels/support/rows.clh"

#pragma OPENCL FP_CONTRACT OFF

#if !defined(X) && !defined(ROWS)
#define X f32
#define ROWS 1
#endif

#define LINE 64
#define PANEL 16
#define OF_TOKEN 4
#ifdef CPU_SHAPE
#define CLIPPED 2  // words of clipped for each of q
#else
#define CLIPPED 1
#endif

static inline int entry_i8(global const char* p, long begin, long i) { return p ? p[begin + i] : 0; }

#ifdef CPU_SHAPE
#include "cl_kernels/linear/dot_cpu.clh"
#endif
#ifdef X
#include "cl_kernels/linear/int8_prepare.clh"
#endif
#ifdef ROWS
#include "cl_kernels/linear/int8_outputs.clh"
#ifdef CPU_SHAPE
#include "cl_kernels/linear/int8_cpu.clh"
#else
#include "cl_kernels/linear/int8_gpu.clh"
#endif
#endif
