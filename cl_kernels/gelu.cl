// y[t,i] = x * g(x) * up[t,i]                                     Hendrycks & Gimpel, 2016
//
//   erf     g(x) = (1 + erf(x / sqrt 2)) / 2, the normal distribution
//   tanh    g(x) = (1 + tanh(u)) / 2 = sigmoid(2 u),  u = sqrt(2/pi) * (x + 0.044715 x^3)
//   quick   g(x) = sigmoid(1.702 x)
//
// One group a piece of a row. Without `up` it is 1, which changes nothing.
//
//   T   type of all
#include "cl_kernels/gelu.clh"
#include "cl_kernels/support/normal_cdf.clh"
#include "cl_kernels/support/rows.clh"
#include "cl_kernels/support/sigmoid.clh"

#ifndef T
#define T f32
#endif

// GeluForm
#define ERF 0
#define TANH 1

#define FACTOR(N) JOIN(factor, N)
#define DEFINE_FACTOR(N)                                                          \
  static inline float##N factor##N(float##N x, int form) {                        \
    const float two_root_2_over_pi = 1.5957691216f;                               \
    if (form == ERF) return NORMAL_CDF(N)(x);                                     \
    const float##N cube = fma(0.044715f * x, x, (float##N)(1.0f));                \
    return SIGMOID(N)(form == TANH ? two_root_2_over_pi * x * cube : 1.702f * x); \
  }
DEFINE_FACTOR(1)
DEFINE_FACTOR(8)
DEFINE_FACTOR(16)

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gelu(
    global const TYPE(T)* x, global const TYPE(T)* up, global TYPE(T)* y, const GeluArguments args) {
  const long t = get_group_id(0), begin = get_group_id(1) * args.piece, count = min(args.piece, args.dim - begin);
  const bool gated = up != 0;
  x += args.x_begin + t * args.x_stride + begin;
  up += args.up_begin + t * args.up_stride + begin;
  y += args.y_begin + t * args.y_stride + begin;
#define UNIT(N)                                                                    \
  const VECTOR(N) v = LOAD(T, N)(x, i);                                            \
  VECTOR(N) g = v * FACTOR(N)(v, args.form);                                            \
  if (gated) g *= LOAD(T, N)(up, i);                                               \
  STORE(T, N)(g, y, i);
  FOR_ROW(i, count, UNIT)
}
