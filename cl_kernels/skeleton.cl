// y[t,:] = slope * x[t,:] + intercept[:]                        (your paper or system here)
//
// One group a row. FOR_ROW gives the step a width: WIDTH elements at a time, then single ones.
//
//   T   type of x and y
#include "cl_kernels/skeleton.clh"
#include "cl_kernels/support/rows.clh"

#ifndef T
#define T f32
#endif

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void skeleton(
    global const TYPE(T)* x, global const float* intercept, global TYPE(T)* y, const SkeletonArguments args) {
  const long t = get_group_id(0);
  const bool has_intercept = intercept != 0;  // an absent view is null
  x += args.x_begin + t * args.x_stride;
  y += args.y_begin + t * args.y_stride;
  intercept += args.intercept_begin;
#define LINE(N)                                                                    \
  VECTOR(N) v = LOAD(T, N)(x, i) * args.slope;                                          \
  if (has_intercept) v += LOAD(f32, N)(intercept, i);                              \
  STORE(T, N)(v, y, i);
  FOR_ROW(i, args.dim, LINE)
}
