// y[t,i] = (x[t,i] - z) * s                                     s, z: the scale and zero of (t, i)
//
// One group a row, or the two rows of nibbles that may share a byte. The product is rounded to f32, then to y's type.
//
//   CODE, REAL   types of x (and zero) and of y      NIBBLES   CODE has four bits
#ifndef CODE
#define CODE i8
#define REAL f32
#endif

#include "cl_kernels/dequantize.clh"
#include "cl_kernels/support/scales.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void dequantize(
    global const TYPE(CODE)* x, global const void* scale, global const TYPE(CODE)* zero, global TYPE(REAL)* y,
    const DequantizeArguments args) {
  const long first = get_group_id(0) * ROWS_A_GROUP;
  for (long t = first; t < min(first + ROWS_A_GROUP, args.rows); ++t) {
    Scales of;
    FIND_SCALES(of, t);
    const long from = args.x_begin + t * args.x_stride, to = args.y_begin + t * args.y_stride;
#define NUMBER(N) STORE(REAL, N)((LOAD(CODE, N)(x, from + i) - ZEROS(N)(of, i)) * SCALES(N)(of, i), y, to + i);
    FOR_CODES(i, from, args.cols, in_vectors(of, from), NUMBER)
  }
}
