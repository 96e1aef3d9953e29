// acc[t,o] = sum_i (q[t,i] - x_zero[t]) * (w[o,i] - weight_zero[o])                                  int32, exact
// y[t,o]   = acc[t,o] * (x_scale[t] * weight_scale[o]) + bias[o]         Dettmers et al., 2022; Xiao et al., 2023
//
// Two kernels. `prepare` makes signed bytes of each token, u8 less 128, and says how its sums become outputs:
//
//   q        [tokens, k up to a multiple of 64]      zeros beyond k; per-item shape: of 4, in tiles (int8_per_item.clh)
//   clipped  the same x 2, with shadow outliers      a list: | i | what saturation took from it, in steps, f32 |
//   tokens   [tokens, 4]    | scale | shift | rest | outliers |
//
//   acc = sum q w - shift * sum w - rest * weight_zero
//
// `product` multiplies: weights as they are packed, in panels of 16 channels, lines of 4 inputs a channel.
//
//   X      type of x: the program has `prepare`
//   EXPERTS  see linear/experts.clh
//   ROWS   tokens that a weight is multiplied with while it is in registers, or a tile: the program has `product`
//
// gpu report, one row: -D ROWS=1 -D LANES=128
// gpu report, one row, dp4a: -D ROWS=1 -D LANES=128 -D DOT_PTX=1
// gpu report, tiled: -D ROWS=64
// gpu report, tiled, dp4a: -D ROWS=64 -D DOT_PTX=1
// gpu report, preparing: -D X=f32
// gpu report says: weights do; four lanes share a word of x, and outliers and scales are met once a row
#include "cl_kernels/linear/experts.clh"
#include "cl_kernels/linear/panels.clh"
#include "cl_kernels/linear_int8.clh"
#include "cl_kernels/support/quotient.clh"
#include "cl_kernels/support/rows.clh"

#pragma OPENCL FP_CONTRACT OFF

#if !defined(X) && !defined(ROWS)
#define X f32
#define ROWS 1
#endif

#define LINE 64
#define PANEL 16
#define OF_TOKEN 4
// Of q, for one token.
#ifdef PER_ITEM
#define PADDED(k) (((k) + 3) / 4 * 4)
#else
#define PADDED(k) (((k) + 63) / 64 * 64)
#endif

// Weights of expert e, and what its channels have.
#define TO_EXPERT(e)                                                                              \
  my.weight_begin += (e) * ((args.n + PANEL - 1) / PANEL) * ((args.k + 3) / 4) * LINE;            \
  my.weight_sum_begin += (e) * args.n;                                                            \
  my.weight_scale_begin += (e) * args.n * args.weight_scale_stride;                               \
  my.weight_zero_begin += (e) * args.n * args.weight_zero_stride;                                 \
  my.bias_begin += (e) * args.n;

static inline int entry_i8(global const char* p, long begin, long i) { return p ? p[begin + i] : 0; }

#ifdef PER_ITEM
#include "cl_kernels/linear/dot_per_item.clh"
#else
#include "cl_kernels/linear/dot_per_group.clh"
#define CODE char
#endif
#ifdef X
#include "cl_kernels/linear/int8_prepare.clh"
#endif
#ifdef ROWS
#include "cl_kernels/linear/int8_outputs.clh"


#if defined(PER_ITEM)
#include "cl_kernels/linear/int8_per_item.clh"
#elif ROWS <= 4
#include "cl_kernels/linear/int8_few.clh"
#else
#include "cl_kernels/linear/int8_tile.clh"
#endif
#endif
