// y[t,:] = sum_j weights[t,j] * x[rows[t,j],:] + sigmoid(shared_gate[t]) * shared[t,:]
//
// One group a piece of a row of y: a decode step has few rows, and all of the device is to work on them. An entry of
// rows outside x is told, and its row of y is not written: every group of it looks at all entries before it writes.
//
//   X, Y   types of x (and shared) and y
//   GATE   type of shared_gate
#include "cl_kernels/moe_combine.clh"
#include "cl_kernels/support/fault.clh"
#include "cl_kernels/support/rows.clh"
#include "cl_kernels/support/sigmoid.clh"

#ifndef X
#define X f32
#define Y f32
#endif
#ifndef GATE
#define GATE f32
#endif

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void moe_combine(
    global const TYPE(X)* x, global const int* rows, global const float* weights, global const TYPE(X)* shared,
    global const TYPE(GATE)* shared_gate, global TYPE(Y)* y, global int* faults, const MoeCombineArguments args) {
  const long t = get_group_id(0), begin = get_group_id(1) * args.piece;
  const long count = min(args.piece, args.dim - begin);
  const int top_k = (int)args.top_k;
  const bool has_shared = shared != 0;
  rows += args.rows_begin + t * args.rows_stride;
  weights += args.weights_begin + t * args.weights_stride;
  for (int j = 0; j < top_k; ++j)
    if (rows[j] < 0 || rows[j] >= args.x_rows) {
      if (LANE == 0) report_fault(faults, args.fault, t * args.top_k + j, rows[j]);
      return;
    }
  x += args.x_begin + begin;
  y += args.y_begin + t * args.y_stride + begin;
  float factor = 1;
  if (shared_gate != 0) factor = SIGMOID(1)(LOAD(GATE, 1)(shared_gate, args.shared_gate_begin + t * args.gate_stride));
  shared += args.shared_begin + t * args.shared_stride + begin;
#define COMBINE(N)                                                                                         \
  VECTOR(N) sum = 0;                                                                                       \
  for (int j = 0; j < top_k; ++j)                                                                          \
    sum = fma((VECTOR(N))(weights[j]), LOAD(X, N)(x + rows[j] * args.x_stride, i), sum);                   \
  if (has_shared) sum = fma((VECTOR(N))(factor), LOAD(X, N)(shared, i), sum);                              \
  STORE(Y, N)(sum, y, i);
  FOR_ROW(i, count, COMBINE)
}
