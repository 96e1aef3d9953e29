// (a, b) -> (a cos - b sin, a sin + b cos) for each pair of a head                               Su et al., 2021
//
//   half:          | first: a0 a1 .. ap | b0 b1 .. bp | rest as it is |
//   interleaved:   | first: a0 b0 a1 b1 ..      ap bp | rest as it is |
//
// A head is cut into pieces of WIDTH pairs, and what is not turned into pieces of WIDTH elements, which are copied bit
// for bit. per-group shape: a lane takes one piece of one head. per-item shape: a work-item takes all pieces of a
// token. Both elements of a pair are loaded before either is stored: y may be x.
// (per-item shape, each piece of all heads with its angles loaded once: 0.4 to 0.8 of the speed, since heads lie too
// far apart for the processor to see what comes next. 2 to 8 work-items a token: 0.8 to 0.95 in f16. 4 to 16 tokens a
// work-item, or lines asked for 4 to 32 heads ahead: no gain. A launch that is waited for costs 45 us: a quarter of what
// 512 tokens of halves take, little of what 4096 do.)
//
//   X, TABLE   types of x (and y), and of cos and sin
#include "cl_kernels/rope.clh"
#include "cl_kernels/support/fault.clh"
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

kernel void rope(
    global const TYPE(X)* x, global const TYPE(TABLE)* cosine, global const TYPE(TABLE)* sine,
    global const void* positions, global TYPE(X)* y, global int* faults, const RopeArguments args) {
  const long t = get_group_id(0);
  long row = t;
  if (args.position_words == 1) row = ((global const int*)positions)[args.positions_begin + t * args.positions_stride];
  if (args.position_words == 2) row = ((global const long*)positions)[args.positions_begin + t * args.positions_stride];
  if (row < 0 || row >= args.rows) {
    if (get_global_id(1) == 0) report_fault(faults, args.fault, t, row);
    return;
  }
  x += args.x_begin + t * args.x_token;
  y += args.y_begin + t * args.y_token;
  cosine += args.cosine_begin + row * args.cosine_stride;
  sine += args.sine_begin + row * args.sine_stride;

  const long kept = args.dim - 2 * args.pairs;
#ifdef PER_ITEM
  for (long h = 0; h < args.heads; ++h, x += args.x_head, y += args.y_head) {
    if (args.interleaved)
      turn_interleaved(x + args.first, y + args.first, cosine, sine, 0, args.pairs);
    else
      turn_half(x + args.first, y + args.first, cosine, sine, 0, args.pairs, args.pairs);
    if (args.copies) copy_kept(x, y, 0, kept, args.first, args.pairs);
  }
#else
  const long turns = (args.pairs + WIDTH - 1) / WIDTH, pieces = turns + (args.copies ? (kept + WIDTH - 1) / WIDTH : 0);
  if (pieces == 0) return;
  const long item = get_global_id(1), h = item / pieces, piece = item - h * pieces, i = piece * WIDTH;
  if (h >= args.heads) return;
  x += h * args.x_head;
  y += h * args.y_head;
  if (piece >= turns)
    copy_kept(x, y, i - turns * WIDTH, min(i - turns * WIDTH + WIDTH, kept), args.first, args.pairs);
  else if (args.interleaved)
    turn_interleaved(x + args.first, y + args.first, cosine, sine, i, min(i + WIDTH, args.pairs));
  else
    turn_half(x + args.first, y + args.first, cosine, sine, i, min(i + WIDTH, args.pairs), args.pairs);
#endif
}
