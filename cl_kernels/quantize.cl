// y[t,i] = saturate(round(x[t,i] / s) + z)                      s, z: the scale and zero of (t, i)
//
//   quantize        s and z are given, whatever their granularity
//   quantize_rows   from the row, zero included: s = max|row| / 127, or s = (high - low) / 255 and
//                   z = saturate(round(lowest - low / s)), lowest the least code; 7 and 15 for four bits
//
// One group a row, or the two rows of nibbles that may share a byte, as do their zero points. s and x / s are rounded
// to f32: a division, for a product with 1 / s would round twice (Runtime builds with correctly rounded ones).
//
//   REAL, CODE   types of x and of y (and zero)      NIBBLES   CODE has four bits
#ifndef CODE
#define REAL f32
#define CODE i8
#endif

#include "cl_kernels/quantize.clh"
#include "cl_kernels/support/quotient.clh"
#include "cl_kernels/support/scales.clh"

// What is beyond 512 is out of reach of every zero point. Adding 1.5 * 2^23 leaves no room for a fraction: rounded to
// nearest, ties to even. NaN, 0 / 0 too, is 0.
#define ROUNDED(N) JOIN(rounded, N)
#define DEFINE_ROUNDED(N)                                                        \
  static inline float##N rounded##N(float##N x, float##N scale, float##N zero) { \
    const float##N far = 512.0f, shift = 12582912.0f, none = 0.0f;               \
    const float##N low = LOWEST(CODE), high = HIGHEST(CODE);                     \
    float##N q = QUOTIENT(N)(x, scale);                                          \
    q = q > far ? far : q;                                                       \
    q = q < -far ? -far : q;                                                     \
    const float##N code = (q == q ? q + shift - shift : none) + zero;            \
    return code < low ? low : code > high ? high : code;                         \
  }
DEFINE_ROUNDED(1)
DEFINE_ROUNDED(2)
DEFINE_ROUNDED(8)
DEFINE_ROUNDED(16)

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void quantize(
    global const TYPE(REAL)* x, global const void* scale, global const TYPE(CODE)* zero, global TYPE(CODE)* y,
    const QuantizeArguments args) {
  const long first = get_group_id(0) * ROWS_A_GROUP;
  for (long t = first; t < min(first + ROWS_A_GROUP, args.rows); ++t) {
    Scales of;
    FIND_SCALES(of, t);
    const long from = args.x_begin + t * args.x_stride, to = args.y_begin + t * args.y_stride;
#define CODE_OF(N)                                                                                   \
  const VECTOR(N) codes = ROUNDED(N)(LOAD(REAL, N)(x, from + i), SCALES(N)(of, i), ZEROS(N)(of, i)); \
  STORE_CODES(CODE, N)(codes, y, to + i);
    FOR_CODES(i, to, args.cols, in_vectors(of, to), CODE_OF)
  }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void quantize_rows(
    global const TYPE(REAL)* x, global TYPE(CODE)* y, global float* row_scale, global TYPE(CODE)* row_zero,
    const QuantizeRowsArguments args) {
  BUTTERFLY_ROOM;
  const long first = get_group_id(0) * ROWS_A_GROUP;
  const float lowest = LOWEST(CODE), steps = HIGHEST(CODE) - LOWEST(CODE);
  for (long t = first; t < min(first + ROWS_A_GROUP, args.rows); ++t) {
    const long from = args.x_begin + t * args.x_stride, to = args.y_begin + t * args.y_stride;
    VECTOR(WIDTH) VAR(low, WIDTH) = 0, VAR(high, WIDTH) = 0, VAR(not_finite, WIDTH) = 0;  // 0 * v is 0 if v is finite
    float VAR(low, 1) = 0, VAR(high, 1) = 0, VAR(not_finite, 1) = 0;
#define RANGE(N)                                      \
  const VECTOR(N) v = LOAD(REAL, N)(x, from + i);     \
  VAR(low, N) = v < VAR(low, N) ? v : VAR(low, N);    \
  VAR(high, N) = v > VAR(high, N) ? v : VAR(high, N); \
  VAR(not_finite, N) += v * 0;
    FOR_ROW(i, args.cols, RANGE)
    const float below = butterfly_max(fmax(LARGEST_OF(WIDTH)(-VAR(low, WIDTH)), -VAR(low, 1)), butterfly_room);
    const float above = butterfly_max(fmax(LARGEST_OF(WIDTH)(VAR(high, WIDTH)), VAR(high, 1)), butterfly_room);
    const float nan = butterfly_sum(SUM_OF(WIDTH)(VAR(not_finite, WIDTH)) + VAR(not_finite, 1), butterfly_room);

    const bool asymmetric = row_zero != 0;
    const float span = above + below;
    const float part = span > FLT_MAX ? 0.5f : 1;  // of a span beyond f32 the halves
    const float range = asymmetric ? part * above + part * below : fmax(below, above);
    const float s = QUOTIENT(1)(range, asymmetric ? part * steps : HIGHEST(CODE)) + nan;
    const float z = asymmetric && s > 0 ? clamp(rint(lowest + QUOTIENT(1)(below, s)), lowest, lowest + steps) : 0;
    if (LANE == 0) row_scale[args.row_scale_begin + t] = s;
    if (LANE == 0 && asymmetric) STORE_CODES(CODE, 1)(z, row_zero, args.row_zero_begin + t);
#define CODE_OF_ROW(N) STORE_CODES(CODE, N)(ROUNDED(N)(LOAD(REAL, N)(x, from + i), s, z), y, to + i);
    FOR_CODES(i, to, args.cols, true, CODE_OF_ROW)
  }
}
