// g = min(gate, limit)     u = max(-limit, min(up, limit))                            Shazeer, 2020
// y[t,i] = g * sigmoid(alpha * g) * (u + up_offset)
//
// One group a piece of a row. Written with comparisons, which NaN passes.
//
//   T   type of all
#include "cl_kernels/support/rows.clh"
#include "cl_kernels/support/sigmoid.clh"
#include "cl_kernels/swiglu.clh"

#ifndef T
#define T f32
#endif

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void swiglu(
    global const TYPE(T)* gate, global const TYPE(T)* up, global TYPE(T)* y, const SwigluArguments args) {
  const long t = get_group_id(0), begin = get_group_id(1) * args.piece, count = min(args.piece, args.dim - begin);
  gate += args.gate_begin + t * args.gate_stride + begin;
  up += args.up_begin + t * args.up_stride + begin;
  y += args.y_begin + t * args.y_stride + begin;
#define GATED(N)                                                                   \
  const VECTOR(N) most = args.limit, least = -args.limit;                                    \
  VECTOR(N) g = LOAD(T, N)(gate, i), u = LOAD(T, N)(up, i);                        \
  g = g > most ? most : g;                                                         \
  u = u > most ? most : u;                                                         \
  u = u < least ? least : u;                                                       \
  STORE(T, N)(g * SIGMOID(N)(args.alpha * g) * (u + args.up_offset), y, i);
  FOR_ROW(i, count, GATED)
}
