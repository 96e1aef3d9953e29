// s = scale * x + mask          m = max(s, sink)
// y[h,r,j] = exp(s[j] - m) / l,  l = sum_k exp(s[k] - m) + exp(sink - m)                  or s[j] - m - ln(l)
//
// One group a piece of a row. Pieces of a row merge as in online softmax:     Milakov & Gimelshein, 2018
//
//   piece 0      piece 1      ..   last          m = max of all           softmax          a row that is one piece
//   (m0, l0)     (m1, l1)          (mp, lp)      l = sum lp exp(mp - m)   softmax_reduce   the pairs of longer rows
//                                                                         softmax_emit     y from all pairs of its row
//
// Masked is true minus infinity, whatever x holds there. NaN is no maximum: it is met in the sum.
//
//   X, Y     types of x and y
//   STORED   y is f32 and no logarithm: exp(s - m) waits in y for its factor (a CPU computes exp slower than it loads)
#include "cl_kernels/softmax.clh"
#include "cl_kernels/support/exp.clh"
#include "cl_kernels/support/rows.clh"

#ifndef X
#define X f32
#define Y f32
#endif

#define NO_MASK 0
#define HIDDEN 1     // true: masked
#define ADDED_F32 2  // added; minus infinity: masked
#define ADDED 3      // the same in x's type

typedef struct {
  global const TYPE(X)* x;
  global const uchar* mask;
  int kind;
  float scale;
} Row;

#define SCORES(N) JOIN(scores, N)
#define DEFINE_SCORES(N)                                                                           \
  static inline VECTOR(N) scores##N(Row row, long i) {                                             \
    const VECTOR(N) masked = -INFINITY, s = LOAD(X, N)(row.x, i) * row.scale;                      \
    if (row.kind == NO_MASK) return s;                                                             \
    if (row.kind == HIDDEN) return LOAD(u8, N)(row.mask, i) > 0.0f ? masked : s;                   \
    const VECTOR(N) mask = row.kind == ADDED_F32 ? LOAD(f32, N)((global const float*)row.mask, i)  \
                                                 : LOAD(X, N)((global const TYPE(X)*)row.mask, i); \
    return mask < -FLT_MAX ? masked : s + mask;                                                    \
  }
DEFINE_SCORES(1)
DEFINE_SCORES(8)
DEFINE_SCORES(16)

// A piece that is masked whole must not compute inf - inf.
static inline float shift_of(float m) { return m < -FLT_MAX ? 0 : m; }

// The pair (m, l) of a piece.
static inline __attribute__((always_inline)) float2 reduce(Row row, long count, global TYPE(Y)* y, local float* room) {
  VECTOR(WIDTH) VAR(most, WIDTH) = -INFINITY, VAR(sum, WIDTH) = 0;
  float VAR(most, 1) = -INFINITY, VAR(sum, 1) = 0;
#define MOST(N)                            \
  const VECTOR(N) s = SCORES(N)(row, i);   \
  VAR(most, N) = s > VAR(most, N) ? s : VAR(most, N);
  FOR_ROW(i, count, MOST)
  const float m = butterfly_max(fmax(LARGEST_OF(WIDTH)(VAR(most, WIDTH)), VAR(most, 1)), room);
  const float shift = shift_of(m);
#ifdef STORED
#define STORE_WEIGHT(N) STORE(Y, N)(e, y, i);
#else
#define STORE_WEIGHT(N)
#endif
#define SUM(N)                                            \
  const VECTOR(N) e = EXP(N)(SCORES(N)(row, i) - shift);  \
  STORE_WEIGHT(N)                                         \
  VAR(sum, N) += e;
  FOR_ROW(i, count, SUM)
  return (float2)(m, butterfly_sum(SUM_OF(WIDTH)(VAR(sum, WIDTH)) + VAR(sum, 1), room));
}

// `own` of the piece, `whole` of the row. Two kernels call it; as a function its vectors would lie on a GPU's stack.
static inline __attribute__((always_inline)) void emit(Row row, long count, global TYPE(Y)* y, float2 own,
                                                       float2 whole, int logarithm) {
  const float shift = shift_of(whole.x);
#ifdef STORED
  const float factor = whole.y == 0 ? 0 : EXP(1)(own.x - shift) / whole.y;
#define FINISH(N) STORE(Y, N)(LOAD(Y, N)(y, i) * factor, y, i);
  FOR_ROW(i, count, FINISH)
#else
  if (logarithm) {
    const float lse = whole.y == 0 ? 0 : log(whole.y);
#define LOGARITHM(N) STORE(Y, N)(SCORES(N)(row, i) - shift - lse, y, i);
    FOR_ROW(i, count, LOGARITHM)
  } else {
    const float factor = whole.y == 0 ? 0 : 1 / whole.y;
#define WEIGHT(N) STORE(Y, N)(EXP(N)(SCORES(N)(row, i) - shift) * factor, y, i);
    FOR_ROW(i, count, WEIGHT)
  }
#endif
}

// The row's pair from those of its pieces and the sink.
static inline float2 merged(global const float2* pairs, long pieces, float sink) {
  float m = sink;
  for (long p = 0; p < pieces; ++p) m = fmax(m, pairs[p].x);
  const float shift = shift_of(m);
  float sum = EXP(1)(sink - shift);
  for (long p = 0; p < pieces; ++p) sum = fma(pairs[p].y, EXP(1)(pairs[p].x - shift), sum);
  return (float2)(m, sum);
}

// Group (r, h, p) has piece p of row r of head h.
#define PIECE                                                                                                \
  const long r = get_group_id(0), h = get_group_id(1);                                                       \
  const long begin = get_group_id(2) * args.piece, count = min(args.piece, args.n - begin);                  \
  const int mask_bytes = args.mask_kind == HIDDEN ? 1 : args.mask_kind == ADDED_F32 ? 4 : sizeof(TYPE(X));   \
  const long mask_at = args.mask_begin + h * args.mask_head + r * args.mask_row + begin;                     \
  const Row row = {x + args.x_begin + h * args.x_head + r * args.x_row + begin,                              \
                   (global const uchar*)mask + mask_at * mask_bytes, args.mask_kind, args.scale};            \
  global TYPE(Y)* to = y + args.y_begin + h * args.y_head + r * args.y_row + begin;
#define SINK (sink == 0 ? -INFINITY : sink[args.sink_begin + h])

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void softmax(
    global const TYPE(X)* x, global const void* mask, global TYPE(Y)* y, global float2* pairs, global const float* sink,
    const SoftmaxArguments args) {
  BUTTERFLY_ROOM;
  PIECE
  const float2 own = reduce(row, count, to, butterfly_room);
  const float s = SINK, m = fmax(own.x, s), shift = shift_of(m);
  const float2 whole = (float2)(m, fma(own.y, EXP(1)(own.x - shift), EXP(1)(s - shift)));
  emit(row, count, to, own, whole, args.logarithm);
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void softmax_reduce(
    global const TYPE(X)* x, global const void* mask, global TYPE(Y)* y, global float2* pairs, global const float* sink,
    const SoftmaxArguments args) {
  BUTTERFLY_ROOM;
  PIECE
  const float2 own = reduce(row, count, to, butterfly_room);
  const long at = (h * get_num_groups(0) + r) * get_num_groups(2) + get_group_id(2);
  if (LANE == 0) pairs[args.pairs_begin + at] = own;
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void softmax_emit(
    global const TYPE(X)* x, global const void* mask, global TYPE(Y)* y, global float2* pairs, global const float* sink,
    const SoftmaxArguments args) {
  PIECE
  const long pieces = get_num_groups(2);
  pairs += args.pairs_begin + (h * get_num_groups(0) + r) * pieces;
  emit(row, count, to, pairs[get_group_id(2)], merged(pairs, pieces, SINK), args.logarithm);
}
