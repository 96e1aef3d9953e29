// y[t,:] = (r[t,:] - m) / sqrt(v + eps) * weight + bias,  m and v of r = x + residual      Ba, Kiros & Hinton, 2016
//
// One group a row, four passes: the mean, what rounding left of it, the variance, the result. The row stays in cache
// between them. Without weight it is 1, without bias 0: which of the two are there is known when the kernel runs.
//
//   X, W   types of x, residual and y, of weight and bias
//   RESIDUAL   residual becomes x + residual
//   RESCALES   X's sums and squares may leave f32
#include "cl_kernels/layer_norm.clh"
#include "cl_kernels/support/quotient.clh"
#include "cl_kernels/support/rows.clh"

#ifndef X
#define X f32
#define W f32
#define RESCALES 1
#endif

#define ZERO_SUMS VAR(sum, WIDTH) = 0, VAR(sum, 1) = 0
// Rounded to nearest, so that a row of equal numbers has them for its mean.
#define MEAN \
  QUOTIENT(1)(butterfly_sum(SUM_OF(WIDTH)(VAR(sum, WIDTH)) + VAR(sum, 1), butterfly_room), (float)args.dim)

// r - m, from r as (r - center) - rest: the center is the mean as f32 has it, the rest what its sum was off by. The
// first difference of a row of large mean is exact.
#define CENTERED(N) ((LOAD(X, N)(row, i) * before - center) * behind - rest)

#define ADD(N) VAR(sum, N) += LOAD(X, N)(row, i) * before;
#define ADD_REST(N) VAR(sum, N) += CENTERED(N);
#define ADD_SQUARE(N)                 \
  const VECTOR(N) v = CENTERED(N);    \
  VAR(sum, N) = fma(v, v, VAR(sum, N));

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void layer_norm(
    global const TYPE(X)* x, global const TYPE(W)* weight, global const TYPE(W)* bias, global TYPE(X)* residual,
    global TYPE(X)* y, const LayerNormArguments args) {
  BUTTERFLY_ROOM;
  const long t = get_group_id(0);
  const bool has_weight = weight != 0, has_bias = bias != 0;
  x += args.x_begin + t * args.x_stride;
  y += args.y_begin + t * args.y_stride;
  weight += args.weight_begin;
  bias += args.bias_begin;
#ifdef RESIDUAL
  residual += args.residual_begin + t * args.residual_stride;
  global const TYPE(X)* row = residual;
#define TAKE(N)                                                         \
  STORE(X, N)(LOAD(X, N)(x, i) + LOAD(X, N)(residual, i), residual, i); \
  ADD(N)
#else
  global const TYPE(X)* row = x;
#define TAKE(N) ADD(N)
#endif

  VECTOR(WIDTH) VAR(sum, WIDTH) = 0;
  float VAR(sum, 1) = 0;
  float before = 1, behind = 1, rest = 0;
  FOR_ROW(i, args.dim, TAKE)
  float center = MEAN;
  ZERO_SUMS;
  FOR_ROW(i, args.dim, ADD_REST)
  rest = MEAN;
  ZERO_SUMS;
  FOR_ROW(i, args.dim, ADD_SQUARE)
  float variance = MEAN + args.eps;
#ifdef RESCALES
  // Beyond f32, or below what it holds: under 2^-100 a variance may have lost squares below 2^-126. Squares of
  // r * 2^-80, or of differences * 2^96, are within. All lanes have the same variance.
  if (!(variance >= 0x1p-100f && variance < INFINITY)) {
    if (variance < 1) {
      behind = 0x1p96f;
    } else {
      before = 0x1p-80f;
      ZERO_SUMS;
      FOR_ROW(i, args.dim, ADD)
      center = MEAN;
    }
    rest = 0;
    ZERO_SUMS;
    FOR_ROW(i, args.dim, ADD_REST)
    rest = MEAN;
    ZERO_SUMS;
    FOR_ROW(i, args.dim, ADD_SQUARE)
    const float power = before * behind;
    variance = MEAN + args.eps * power * power;
  }
#endif
  // NaN where the variance is not finite: infinity would make the rest of its row zeros.
  const float scale = variance < INFINITY ? 1 / sqrt(variance) : NAN;
#define RESULT(N)                                      \
  VECTOR(N) v = CENTERED(N) * scale;                   \
  if (has_weight) v *= LOAD(W, N)(weight, i);          \
  if (has_bias) v += LOAD(W, N)(bias, i);              \
  STORE(X, N)(v, y, i);
  FOR_ROW(i, args.dim, RESULT)
}
