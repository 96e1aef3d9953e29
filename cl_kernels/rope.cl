// (a, b) -> (a cos - b sin, a sin + b cos) for each pair of a head                               Su et al., 2021
//
//   half:          | first: a0 a1 .. ap | b0 b1 .. bp | rest as it is |
//   interleaved:   | first: a0 b0 a1 b1 ..      ap bp | rest as it is |
//
// A head is cut into pieces of WIDTH pairs, and what is not turned into pieces of WIDTH elements, which are copied bit
// for bit. gpu shape: a lane takes one piece of one head. cpu shape: a work-item takes all pieces of a token. Both
// elements of a pair are loaded before either is stored: y may be x.
// (cpu shape, each piece of all heads with its angles loaded once: 0.4 to 0.8 of the speed, since heads lie too far
// apart for the processor to see what comes next. 2 to 8 work-items a token: 0.8 to 0.95 in f16. 4 to 16 tokens a
// work-item, or lines asked for 4 to 32 heads ahead: no gain. A launch that is waited for costs 45 us: a quarter of what
// 512 tokens of halves take, little of what 4096 do.)
//
//   X, TABLE   types of x (and y), and of cos and sin
#include "cl_kernels/support/offence.clh"
#include "cl_kernels/support/rows.clh"

#ifndef X
#define X f32
#define TABLE f32
#endif

#define bits_f32 uint
#define bits_f16 ushort
#define bits_bf16 ushort
#define BITS(T) JOIN(bits_, T)

#define ROTATED(N, A, B)                                                              \
  const VECTOR(N) c = LOAD(TABLE, N)(cos_row, i), s = LOAD(TABLE, N)(sin_row, i);     \
  const VECTOR(N) turned_a = A * c - B * s, turned_b = A * s + B * c;

// Pairs i .. end of a head whose rotated part begins at x and y.
static inline void turn_half(global const TYPE(X)* x, global TYPE(X)* y, global const TYPE(TABLE)* cos_row,
                             global const TYPE(TABLE)* sin_row, long i, long end, long pairs) {
#define TURN_HALF(N)                                                          \
  const VECTOR(N) a = LOAD(X, N)(x, i), b = LOAD(X, N)(x, pairs + i);         \
  ROTATED(N, a, b)                                                            \
  STORE(X, N)(turned_a, y, i);                                                \
  STORE(X, N)(turned_b, y, pairs + i);
  for (; i + WIDTH <= end; i += WIDTH) {
    TURN_HALF(WIDTH)
  }
  for (; i < end; ++i) {
    TURN_HALF(1)
  }
}

static inline void turn_interleaved(global const TYPE(X)* x, global TYPE(X)* y, global const TYPE(TABLE)* cos_row,
                                    global const TYPE(TABLE)* sin_row, long i, long end) {
  for (; i + WIDTH <= end; i += WIDTH) {
    const VECTOR(WIDTH) low = LOAD(X, WIDTH)(x, 2 * i), high = LOAD(X, WIDTH)(x, 2 * i + WIDTH);
    const VECTOR(WIDTH) a = (VECTOR(WIDTH))(low.even, high.even), b = (VECTOR(WIDTH))(low.odd, high.odd);
    ROTATED(WIDTH, a, b)
    VECTOR(WIDTH) pairs_low, pairs_high;
    pairs_low.even = turned_a.lo, pairs_low.odd = turned_b.lo;
    pairs_high.even = turned_a.hi, pairs_high.odd = turned_b.hi;
    STORE(X, WIDTH)(pairs_low, y, 2 * i);
    STORE(X, WIDTH)(pairs_high, y, 2 * i + WIDTH);
  }
  for (; i < end; ++i) {
    const float a = LOAD(X, 1)(x, 2 * i), b = LOAD(X, 1)(x, 2 * i + 1);
    ROTATED(1, a, b)
    STORE(X, 1)(turned_a, y, 2 * i);
    STORE(X, 1)(turned_b, y, 2 * i + 1);
  }
}

// What lies beside the pairs, its elements begin .. end.
static inline void copy_kept(global const TYPE(X)* x, global TYPE(X)* y, long begin, long end, long first,
                             long pairs) {
  for (long k = begin; k < end; ++k) {
    const long i = k < first ? k : k + 2 * pairs;
    ((global BITS(X)*)y)[i] = ((global const BITS(X)*)x)[i];
  }
}

kernel void rope(global const TYPE(X)* x, long x_begin, long x_token, long x_head, global const TYPE(TABLE)* cosine,
                 long cosine_begin, long cosine_stride, global const TYPE(TABLE)* sine, long sine_begin,
                 long sine_stride, global const int* positions, long positions_begin, long positions_stride,
                 int position_words, global TYPE(X)* y, long y_begin, long y_token, long y_head, long rows, long heads,
                 long dim, long pairs, long first, int interleaved, int copies, global int* record, int place) {
  const long t = get_group_id(0);
  long row = t;
  if (position_words == 1) row = positions[positions_begin + t * positions_stride];
  if (position_words == 2) row = ((global const long*)positions)[positions_begin + t * positions_stride];
  if (row < 0 || row >= rows) {
    if (get_global_id(1) == 0) offend(record, place, t, row);
    return;
  }
  x += x_begin + t * x_token;
  y += y_begin + t * y_token;
  cosine += cosine_begin + row * cosine_stride;
  sine += sine_begin + row * sine_stride;

  const long kept = dim - 2 * pairs;
#ifdef CPU_SHAPE
  for (long h = 0; h < heads; ++h, x += x_head, y += y_head) {
    if (interleaved)
      turn_interleaved(x + first, y + first, cosine, sine, 0, pairs);
    else
      turn_half(x + first, y + first, cosine, sine, 0, pairs, pairs);
    if (copies) copy_kept(x, y, 0, kept, first, pairs);
  }
#else
  const long turns = (pairs + WIDTH - 1) / WIDTH, pieces = turns + (copies ? (kept + WIDTH - 1) / WIDTH : 0);
  if (pieces == 0) return;
  const long item = get_global_id(1), h = item / pieces, piece = item - h * pieces, i = piece * WIDTH;
  if (h >= heads) return;
  x += h * x_head;
  y += h * y_head;
  if (piece >= turns)
    copy_kept(x, y, i - turns * WIDTH, min(i - turns * WIDTH + WIDTH, kept), first, pairs);
  else if (interleaved)
    turn_interleaved(x + first, y + first, cosine, sine, i, min(i + WIDTH, pairs));
  else
    turn_half(x + first, y + first, cosine, sine, i, min(i + WIDTH, pairs), pairs);
#endif
}
