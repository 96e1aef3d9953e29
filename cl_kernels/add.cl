// y[t,i] = a[t,i] + b[t,i]; b of one row has the stride 0.
//
//   A, B   types of a (and y) and b
#include "cl_kernels/support/rows.clh"

#ifndef A
#define A f32
#define B f32
#endif

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void add(
    global const TYPE(A)* a, long a_begin, long a_stride, global const TYPE(B)* b, long b_begin, long b_stride,
    global TYPE(A)* y, long y_begin, long y_stride, long dim) {
  const long t = get_group_id(0);
  a += a_begin + t * a_stride;
  b += b_begin + t * b_stride;
  y += y_begin + t * y_stride;
#define SUM(N) STORE(A, N)(LOAD(A, N)(a, i) + LOAD(B, N)(b, i), y, i);
  FOR_ROW(i, dim, SUM)
}
