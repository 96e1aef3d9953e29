// y[t,i] = g(x[t,i]) * up[t,i]                                     Hendrycks & Gimpel, 2016
//
//   erf            g(x) = x (1 + erf(x / sqrt 2)) / 2, of the normal distribution
//   tanh           g(x) = x (1 + tanh(u)) / 2 = x sigmoid(2 u),  u = sqrt(2/pi) * (x + 0.044715 x^3)
//   quick          g(x) = x sigmoid(1.702 x)
//   relu_squared   g(x) = max(x, 0)^2
//   softcap        g(x) = cap tanh(x / cap)
//   xielu          g(x) = (alpha_p x + beta) x where x > 0, else alpha_n (e^min(x, eps) - 1) + slope x
//
// One group a piece of a row. Without `up` it is 1, which changes nothing.
//
//   T   type of all
#include "cl_kernels/gelu.clh"
#include "cl_kernels/support/normal_cdf.clh"
#include "cl_kernels/support/rows.clh"
#include "cl_kernels/support/sigmoid.clh"
#include "cl_kernels/support/tanh.clh"

#ifndef T
#define T f32
#endif

// GeluForm
#define ERF 0
#define TANH_FORM 1
#define RELU_SQUARED 3
#define SOFTCAP 4
#define XIELU 5

#define FACTOR(N) JOIN(factor, N)
#define DEFINE_FACTOR(N)                                                          \
  static inline float##N factor##N(float##N x, int form) {                        \
    const float two_root_2_over_pi = 1.5957691216f;                               \
    if (form == ERF) return NORMAL_CDF(N)(x);                                     \
    const float##N cube = fma(0.044715f * x, x, (float##N)(1.0f));                \
    return SIGMOID(N)(form == TANH_FORM ? two_root_2_over_pi * x * cube : 1.702f * x); \
  }
DEFINE_FACTOR(1)
DEFINE_FACTOR(8)
DEFINE_FACTOR(16)

// e^u - 1 = 2 t / (1 - t) with t = tanh(u / 2) <= 0: nothing cancels.
#define XIELU_OF(N) JOIN(xielu, N)
#define DEFINE_XIELU(N)                                                                               \
  static inline float##N xielu##N(float##N x, float##N up, GeluArguments args) {                      \
    const float##N t = TANH(N)(0.5f * fmin(x, (float##N)(args.eps)));                                 \
    const float##N below = fma((float##N)(args.alpha_n), (t + t) / (1.0f - t), args.slope * x);       \
    const float##N above = fma((float##N)(args.alpha_p), x, (float##N)(args.beta));                   \
    return (x > 0.0f ? above : below) * up * (x > 0.0f ? x : (float##N)(1.0f));                       \
  }
DEFINE_XIELU(1)
DEFINE_XIELU(8)
DEFINE_XIELU(16)

// A square is multiplied in halves: it may be beyond f32 where its product with `up` is not.
#define GATED(N) JOIN(gated, N)
#define DEFINE_GATED(N)                                                                    \
  static inline float##N gated##N(float##N x, float##N up, GeluArguments args) {           \
    if (args.form == SOFTCAP) return args.cap * TANH(N)(x / args.cap) * up;                \
    if (args.form == XIELU) return XIELU_OF(N)(x, up, args);                                \
    const float##N positive = x < 0.0f ? (float##N)(0.0f) : x; /* NaN stays */             \
    return args.form == RELU_SQUARED ? positive * up * positive : x * FACTOR(N)(x, args.form) * up; \
  }
DEFINE_GATED(1)
DEFINE_GATED(8)
DEFINE_GATED(16)

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gelu(
    global const TYPE(T)* x, global const TYPE(T)* up, global TYPE(T)* y, const GeluArguments args) {
  const long t = get_group_id(0), begin = get_group_id(1) * args.piece, count = min(args.piece, args.dim - begin);
  const bool has_up = up != 0;
  x += args.x_begin + t * args.x_stride + begin;
  up += args.up_begin + t * args.up_stride + begin;
  y += args.y_begin + t * args.y_stride + begin;
#define UNIT(N)                                                       \
  VECTOR(N) by = 1.0f;                                                \
  if (has_up) by = LOAD(T, N)(up, i);                                  \
  STORE(T, N)(GATED(N)(LOAD(T, N)(x, i), by, args), y, i);
  FOR_ROW(i, count, UNIT)
}
