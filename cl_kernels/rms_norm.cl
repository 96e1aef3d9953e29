// y[t,:] = cast(r[t,:] / sqrt(mean(r[t,:]^2) + eps)) * (weight + offset), r = x + residual    Zhang & Sennrich, 2019
//
// One group a vector, two passes: it stays in cache between them.
//
//   X, W   types of x and weight      Y   of y: X, or i8 with a scale a row
//   RESIDUAL   residual becomes x + residual
//   RESCALES   X's squares may leave f32
//   CASTS      the normalised row is rounded to X before the product with weight (Llama's rounding point)
#include "cl_kernels/rms_norm.clh"
#include "cl_kernels/support/quotient.clh"
#include "cl_kernels/support/rows.clh"

#ifndef X
#define X f32
#define W f32
#define Y f32
#define CASTS 1
#define RESCALES 1
#endif

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void rms_norm(
    global const TYPE(X)* x, global const TYPE(W)* weight, global TYPE(X)* residual, global TYPE(Y)* y,
    global float* y_scale, const RmsNormArguments args) {
  BUTTERFLY_ROOM;
  const long t = get_group_id(0), head = get_group_id(1);
  x += args.x_begin + t * args.x_stride + head * args.dim;
  y += args.y_begin + t * args.y_stride + head * args.dim;
  weight += args.weight_begin;
#ifdef RESIDUAL
  residual += args.residual_begin + t * args.residual_stride + head * args.dim;
  global const TYPE(X)* row = residual;
#else
  global const TYPE(X)* row = x;
#endif

  VECTOR(WIDTH) VAR(squares, WIDTH) = 0;
  float VAR(squares, 1) = 0;
#ifdef RESIDUAL
#define SQUARES(N)                                                                    \
  STORE(X, N)(LOAD(X, N)(x, i) + LOAD(X, N)(residual, i), residual, i);               \
  const VECTOR(N) v = LOAD(X, N)(residual, i);                                        \
  VAR(squares, N) = fma(v, v, VAR(squares, N));
#else
#define SQUARES(N)                       \
  const VECTOR(N) v = LOAD(X, N)(x, i);  \
  VAR(squares, N) = fma(v, v, VAR(squares, N));
#endif
  FOR_ROW(i, args.dim, SQUARES)
  const float sum = butterfly_sum(SUM_OF(WIDTH)(VAR(squares, WIDTH)) + VAR(squares, 1), butterfly_room);
  float mean = sum / (float)args.dim + args.eps, root = 1;
#ifdef RESCALES
  // Squares beyond f32, or below what it holds: under 2^-100 a mean may have lost squares below 2^-126. Those of
  // row * root^2 are within; half of the power goes to each of the factors. All lanes have the same mean.
  if (!(mean >= 0x1p-100f && mean < INFINITY)) {
    root = mean < 1 ? 0x1p48f : 0x1p-40f;
    const float power = root * root;
    VAR(squares, WIDTH) = 0;
    VAR(squares, 1) = 0;
#define SCALED_SQUARES(N)                         \
  const VECTOR(N) v = LOAD(X, N)(row, i) * power; \
  VAR(squares, N) = fma(v, v, VAR(squares, N));
    FOR_ROW(i, args.dim, SCALED_SQUARES)
    const float scaled = butterfly_sum(SUM_OF(WIDTH)(VAR(squares, WIDTH)) + VAR(squares, 1), butterfly_room);
    mean = scaled / (float)args.dim + args.eps * power * power;
  }
#endif
  // NaN where the mean is not finite: infinity would make the rest of its row zeros.
  const float scale = mean < INFINITY ? root / sqrt(mean) : NAN;

#ifdef CASTS
#define NORMALISED(N) (CAST(X, N)(LOAD(X, N)(row, i) * root * scale) * (LOAD(W, N)(weight, i) + args.offset))
#else
#define NORMALISED(N) (LOAD(X, N)(row, i) * root * scale * (LOAD(W, N)(weight, i) + args.offset))
#endif

#ifndef QUANTIZED
#define WRITE(N) STORE(Y, N)(NORMALISED(N), y, i);
  FOR_ROW(i, args.dim, WRITE)
#else
  VECTOR(WIDTH) VAR(largest, WIDTH) = 0, VAR(not_finite, WIDTH) = 0;  // 0 * v is 0 for finite values only
  float VAR(largest, 1) = 0, VAR(not_finite, 1) = 0;
#define RANGE(N)                                        \
  const VECTOR(N) v = NORMALISED(N);                    \
  VAR(largest, N) = fmax(VAR(largest, N), fabs(v));     \
  VAR(not_finite, N) += v * 0;
  FOR_ROW(i, args.dim, RANGE)
  const float largest =
      butterfly_max(fmax(LARGEST_OF(WIDTH)(VAR(largest, WIDTH)), VAR(largest, 1)), butterfly_room);
  const float nan =
      butterfly_sum(SUM_OF(WIDTH)(VAR(not_finite, WIDTH)) + VAR(not_finite, 1), butterfly_room);
  const float step = QUOTIENT(1)(largest, 127.0f) + nan;
  if (LANE == 0) y_scale[args.y_scale_begin + t] = step;
#define CODES(N) STORE(Y, N)(step > 0 ? QUOTIENT(N)(NORMALISED(N), step) : 0, y, i);
  FOR_ROW(i, args.dim, CODES)
#endif
}
