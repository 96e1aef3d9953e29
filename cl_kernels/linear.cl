// y[t,n] = sum_k x[t,k] * w[n,k] + bias[n]
//
// The sum is the one that docs/ops/linear.md states, so it is the same for any number of rows and in both shapes: k is
// cut into blocks of 192; in a block one chain of fma runs over ascending k; the blocks are added in order.
//
//   W          type of the weight
//   PACKED     it lies in panels of 16 channels, [panel][k][16], bf16 in pairs of k, [panel][k/2][16][2]; else [n][k]
//   ROWS       rows of x that a weight is multiplied with while it is in registers: 1, 4, or a tile of many
//   ONE_TILE   there is no second one (per-item shape)
//   EXPERTS    see linear/experts.clh
//   ROUNDED    bf16_products: x and w are rounded to bf16 as they are loaded
//   ALIGNED    see support/types.clh
//
// gpu report, one row, f16: -D W=f16 -D PACKED=1 -D ROWS=1 -D LANES=64
// gpu report, one row, bf16: -D W=bf16 -D PACKED=1 -D ROWS=1 -D LANES=64
// gpu report, tiled, f16: -D W=f16 -D PACKED=1 -D ROWS=8 -D LANES=128
// gpu report says: weights do, and x in its loop; the rest is its tail, one by one in each type, met once a row
#include "cl_kernels/linear.clh"
#include "cl_kernels/linear/experts.clh"
#include "cl_kernels/linear/panels.clh"

#ifndef W
#define W f32
#define PACKED 1
#define ROWS 1
#endif

#define BLOCK 192
#define PANEL 16
#define IS_PAIRED_bf16 1
#define IS_PAIRED JOIN(IS_PAIRED_, W)
#if defined(PACKED) && IS_PAIRED == 1
#define PAIRED 1
#endif

// Where a panel begins.
#ifdef PAIRED
#define PANEL_SIZE(k) (((k) + 1) / 2 * 2 * PANEL)
#else
#define PANEL_SIZE(k) ((k) * PANEL)
#endif

// Weights of expert e.
#ifdef PACKED
#define OF_WEIGHT(e) ((e) * ((args.n + PANEL - 1) / PANEL) * PANEL_SIZE(args.k))
#else
#define OF_WEIGHT(e) ((e) * args.n * args.weight_stride)
#endif
#define TO_EXPERT(e)                \
  my.weight_begin += OF_WEIGHT(e);  \
  my.bias_begin += (e) * args.n;

// What is multiplied.
#ifdef ROUNDED
#define FACTOR(N, v) CAST(bf16, N)(v)
#else
#define FACTOR(N, v) (v)
#endif
#define LOAD_WEIGHT(N, p, i) FACTOR(N, LOAD(W, N)(p, i))


#ifdef PER_ITEM
#include "cl_kernels/linear/float_per_item.clh"
#elif ROWS <= 4
#include "cl_kernels/linear/float_few.clh"
#else
#include "cl_kernels/linear/float_tile.clh"
#endif
