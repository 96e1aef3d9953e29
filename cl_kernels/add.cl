// y[t,i] = a[t,i] + b[t,i]; b of one row has the stride 0.
//
//   A, B   types of a (and y) and b
#include "cl_kernels/add.clh"
#include "cl_kernels/support/rows.clh"

#ifndef A
#define A f32
#define B f32
#endif

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void add(
    global const TYPE(A)* a, global const TYPE(B)* b, global TYPE(A)* y, const AddArguments args) {
  const long t = get_group_id(0);
  a += args.a_begin + t * args.a_stride;
  b += args.b_begin + t * args.b_stride;
  y += args.y_begin + t * args.y_stride;
#define SUM(N) STORE(A, N)(LOAD(A, N)(a, i) + LOAD(B, N)(b, i), y, i);
  FOR_ROW(i, args.dim, SUM)
}
