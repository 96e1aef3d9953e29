// acc[t,o] = sum_i (q[t,i] - x_zero[t]) * (w[o,i] - weight_zero[o])                                  int32, exact
// y[t,o]   = acc[t,o] * (x_scale[t] * weight_scale[o]) + bias[o]         Dettmers et al., 2022; Xiao et al., 2023
//
// Two kernels. `prepare` makes signed bytes of each token, u8 less 128, and says how its sums become outputs:
//
//   q        [tokens, k up to a multiple of 4]       zeros beyond k; in the cpu shape floats, in tiles
//   clipped  the same, f32, with shadow outliers     what saturation took from an activation, in steps
//   tokens   [tokens, 4]    | scale | shift | rest | has outliers |
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
#define BLOCK 192  // of k: a chain of fma in the cpu shape

// What weights take out of q in the cpu shape (int8_cpu.clh).
#define CENTRE 0x1p8f
#define POWERS (float4)(CENTRE, 1, 0x1p-8f, CENTRE)

static inline int entry_i8(global const char* p, long begin, long i) { return p ? p[begin + i] : 0; }

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
