// g = min(gate, limit)     u = max(-limit, min(up, limit))                            Shazeer, 2020
// y[t,i] = g * sigmoid(alpha * g) * (u + up_offset)
//
// One group a piece of a row. Written with comparisons, which NaN passes.
//
//   T   type of all
#include "cl_kernels/support/rows.clh"
#include "cl_kernels/support/sigmoid.clh"

#ifndef T
#define T f32
#endif

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void swiglu(
    global const TYPE(T)* gate, long gate_begin, long gate_stride, global const TYPE(T)* up, long up_begin,
    long up_stride, global TYPE(T)* y, long y_begin, long y_stride, long dim, long piece, float alpha, float limit,
    float up_offset) {
  const long t = get_group_id(0), begin = get_group_id(1) * piece, count = min(piece, dim - begin);
  gate += gate_begin + t * gate_stride + begin;
  up += up_begin + t * up_stride + begin;
  y += y_begin + t * y_stride + begin;
#define GATED(N)                                                                   \
  const VECTOR(N) most = limit, least = -limit;                                    \
  VECTOR(N) g = LOAD(T, N)(gate, i), u = LOAD(T, N)(up, i);                        \
  g = g > most ? most : g;                                                         \
  u = u > most ? most : u;                                                         \
  u = u < least ? least : u;                                                       \
  STORE(T, N)(g * SIGMOID(N)(alpha * g) * (u + up_offset), y, i);
  FOR_ROW(i, count, GATED)
}
