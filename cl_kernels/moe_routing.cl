// Which experts a token goes to, and the rows of all tokens sorted by expert (ops/moe_routing.hpp has the equations).
//
//   choose   one group a token: scores and choices, a block of WIDTH experts at a time, then the largest one by one.
//            A block belongs to one lane, which keeps its maximum; what is taken becomes minus infinity.
//   count    one group a piece of the tokens: how many rows each expert has in it
//   end      one group: counts become the rows before them, in earlier pieces; where each expert's rows start and end
//   place    one group a piece: rows in the order of its tokens
//
// Pieces do not depend on the device, and no number on the order of work-items.
//
//   X   type of the logits
#include "cl_kernels/moe_routing.clh"
#include "cl_kernels/support/quotient.clh"
#include "cl_kernels/support/rows.clh"
#include "cl_kernels/support/sigmoid.clh"

#ifndef X
#define X f32
#endif

#define SOFTMAX 0  // MoeScore
#define SIGMOIDS 1
#define OF_CHOSEN 2
#define SPARSEMIXER 3

#define BLOCK VECTOR(WIDTH)
#define GONE (-INFINITY)

// Finite; of NaN and another number fmax gives the other.
static inline BLOCK held_finite(BLOCK v) { return fmin(fmax(v, (BLOCK)(-FLT_MAX)), (BLOCK)(FLT_MAX)); }

// Blocks of this lane.
#define FOR_BLOCKS(b) for (long b = LANE; b < args.blocks; b += LANES)

// Experts of block b, and behind the last one `behind`.
#define DEFINE_BLOCK_OF(name, T)                                                                           \
  static inline BLOCK name(global const TYPE(T)* row, long b, long experts, float behind) {                \
    const long i = b * WIDTH;                                                                              \
    if (i + WIDTH <= experts) return LOAD(T, WIDTH)(row, i);                                               \
    float part[WIDTH];                                                                                     \
    for (int e = 0; e < WIDTH; ++e) part[e] = i + e < experts ? LOAD(T, 1)(row, i + e) : behind;           \
    return JOIN(vload, WIDTH)(0, part);                                                                    \
  }
DEFINE_BLOCK_OF(logits_of, X)
DEFINE_BLOCK_OF(biases_of, f32)

// What group g is worth: its largest choice, or the sum of s + bias over its two largest.
static inline float value_of(global const float* choices, global const float* summed, long begin, long end, int two) {
  long first = begin, second = -1;
  for (long e = begin + 1; e < end; ++e) {
    if (choices[e] > choices[first]) {
      second = first;
      first = e;
    } else if (second < 0 || choices[e] > choices[second]) {
      second = e;
    }
  }
  return two ? fmin(fmax(summed[first] + summed[second], -FLT_MAX), FLT_MAX) : choices[first];
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void moe_routing_choose(
    global const TYPE(X)* logits, global const float* bias, global float* weights, global int* ids,
    global float* scores, global float* choices, global float* maxima, global float* values,
    const MoeRoutingChooseArguments args) {
  BUTTERFLY_ROOM;
#if LANES != 1
  // Of three turns: one is met, one has been told, and one may still be read.
  local int winners[3];
  if (LANE == 0) winners[0] = INT_MAX;
#endif
  const long t = get_group_id(0);
  const bool biased = bias != 0;
  logits += args.logits_begin + t * args.logits_stride;
  bias += args.bias_begin;
  weights += args.weights_begin + t * args.weights_stride;
  ids += args.ids_begin + t * args.ids_stride;
  scores += args.scores_begin + t * args.padded;
  choices += args.choices_begin + t * args.padded;
  maxima += args.maxima_begin + t * args.blocks;
  values += args.values_begin + t * args.groups;

  float most = -FLT_MAX, doubt = 0;
  FOR_BLOCKS(b) {
    const BLOCK logit = logits_of(logits, b, args.experts, GONE);
    most = fmax(most, LARGEST_OF(WIDTH)(held_finite(logit)));
    doubt += SUM_OF(WIDTH)(logit == logit ? (BLOCK)(0.0f) : logit);
  }
  most = butterfly_max(most, butterfly_room);
  doubt = butterfly_sum(doubt, butterfly_room);  // 0 or NaN
  float sum = 0;
  FOR_BLOCKS(b) {
    const BLOCK logit = logits_of(logits, b, args.experts, GONE), held = held_finite(logit);
    BLOCK score = held;
    if (args.score == SOFTMAX) score = EXP(WIDTH)(held - most);
    if (args.score == SIGMOIDS) score = SIGMOID(WIDTH)(held);
    JOIN(vstore, WIDTH)(score, b, scores);
    JOIN(vstore, WIDTH)(held, b, choices);
    if ((b + 1) * WIDTH <= args.experts)
      sum += SUM_OF(WIDTH)(score);
    else
      for (long e = b * WIDTH; e < args.experts; ++e) sum += scores[e];
  }
  const float total = args.score == SOFTMAX ? butterfly_sum(sum, butterfly_room) : 1;
  FOR_BLOCKS(b) {
    BLOCK score = JOIN(vload, WIDTH)(b, scores), choice = JOIN(vload, WIDTH)(b, choices);
    if (args.score == SOFTMAX) score = score / total;
    if (biased) choice = held_finite(score + biases_of(bias, b, args.experts, 0));
    JOIN(vstore, WIDTH)(score, b, scores);
    JOIN(vstore, WIDTH)(choice, b, choices);
    for (long e = max(args.experts, b * WIDTH); e < (b + 1) * WIDTH; ++e) choices[e] = GONE;
  }
  if (args.groups_kept < args.groups) {
    const long of_group = args.experts / args.groups;
    group_barrier();
    for (long g = LANE; g < args.groups; g += LANES)
      values[g] = value_of(choices, biased ? choices : scores, g * of_group, (g + 1) * of_group, args.sum_of_two);
    group_barrier();
    for (long g = LANE; g < args.groups; g += LANES) {
      long better = 0;
      for (long other = 0; other < args.groups; ++other)
        better += values[other] > values[g] || (values[other] == values[g] && other < g);
      if (better >= args.groups_kept)
        for (long e = g * of_group; e < (g + 1) * of_group; ++e) choices[e] = GONE;
    }
  }
  group_barrier();
  FOR_BLOCKS(b) maxima[b] = LARGEST_OF(WIDTH)(JOIN(vload, WIDTH)(b, choices));

  for (int j = 0; j < args.top_k; ++j) {
    float largest = GONE;
    int block = INT_MAX;
    FOR_BLOCKS(b) if (maxima[b] > largest) {
      largest = maxima[b];
      block = (int)b;
    }
#if LANES != 1
    const float of_all = butterfly_max(largest, butterfly_room);
    if (LANE == 0) winners[(j + 1) % 3] = INT_MAX;
    if (largest == of_all) atomic_min(&winners[j % 3], block);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (winners[j % 3] != block) continue;
#endif
    int expert = block * WIDTH;
    while (choices[expert] != largest) ++expert;
    ids[j] = expert;
    choices[expert] = GONE;
    maxima[block] = LARGEST_OF(WIDTH)(JOIN(vload, WIDTH)(block, choices));
  }
  group_barrier();

  if (args.score == SPARSEMIXER) {
    // Each choice's share among the experts that are left and near it; those that were chosen go.
    for (int j = 0; j < args.top_k; ++j) {
      const float most_left = scores[ids[j]];
      float near = 0;
      for (long e = LANE; e < args.experts; e += LANES) {
        const float distance = most_left - scores[e], bound = 2 * args.jitter * fmax(fabs(scores[e]), most_left);
        if (scores[e] != GONE && !(distance > bound)) near += EXP(1)(-distance);
      }
      near = butterfly_sum(near, butterfly_room);
      group_barrier();
      if (LANE == 0) {
        weights[j] = QUOTIENT(1)(1.0f, near);
        scores[ids[j]] = GONE;
      }
      group_barrier();
    }
    for (int j = LANE; j < args.top_k; j += LANES) scores[ids[j]] = weights[j];
    group_barrier();
  }
  const float largest = scores[ids[0]];
  float chosen = 0;
  for (int j = LANE; j < args.top_k; j += LANES)
    chosen += args.score == OF_CHOSEN ? EXP(1)(scores[ids[j]] - largest) : scores[ids[j]];
  chosen = butterfly_sum(chosen, butterfly_room);
  const float divisor = args.score == OF_CHOSEN ? chosen : args.renormalize ? chosen + 1e-20f : 1.0f;
  for (int j = LANE; j < args.top_k; j += LANES) {
    const float weight = args.score == OF_CHOSEN ? EXP(1)(scores[ids[j]] - largest) : scores[ids[j]];
    weights[j] = QUOTIENT(1)(weight, divisor) * args.scale + doubt;
  }
}

// The (token, choice) pairs of a piece, in order.
typedef struct {
  global const int* ids;
  long stride, first, last;
  int top_k;
} Pairs;
static inline Pairs pairs_of(global const int* ids, const MoeRoutingSortArguments args) {
  const long first = get_group_id(0) * args.piece, last = min(args.tokens, first + args.piece);
  const Pairs pairs = {ids + args.ids_begin, args.ids_stride, first * args.top_k, last * args.top_k, args.top_k};
  return pairs;
}
static inline int expert_of(Pairs pairs, long i) {
  return pairs.ids[i / pairs.top_k * pairs.stride + i % pairs.top_k];
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void moe_routing_count(
    global const int* ids, global int* counts, global int* starts, global int* rows, global int* row_tokens,
    global int* expert_ends, const MoeRoutingSortArguments args) {
  counts += args.counts_begin + get_group_id(0) * args.experts;
  for (long e = LANE; e < args.experts; e += LANES) counts[e] = 0;
  group_barrier();
  const Pairs pairs = pairs_of(ids, args);
  for (long i = pairs.first + LANE; i < pairs.last; i += LANES) {
#if LANES == 1
    ++counts[expert_of(pairs, i)];
#else
    atomic_inc((volatile global int*)counts + expert_of(pairs, i));
#endif
  }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void moe_routing_end(
    global const int* ids, global int* counts, global int* starts, global int* rows, global int* row_tokens,
    global int* expert_ends, const MoeRoutingSortArguments args) {
  local int of_lanes[LANES];
  counts += args.counts_begin;
  starts += args.starts_begin;
  expert_ends += args.expert_ends_begin;
  // Neighbouring experts, so that the lanes' sums are those of what lies before a lane's own.
  const long share = (args.experts + LANES - 1) / LANES;
  const long first = min(args.experts, LANE * share), last = min(args.experts, first + share);
  int of_lane = 0;
  for (long e = first; e < last; ++e) {
    int before = 0;
    for (long p = 0; p < args.pieces; ++p) {
      const int count = counts[p * args.experts + e];
      counts[p * args.experts + e] = before;
      before += count;
    }
    starts[e] = before;
    of_lane += before;
  }
  of_lanes[LANE] = of_lane;
  group_barrier();
  int row = 0;
  for (int lane = 0; lane < LANE; ++lane) row += of_lanes[lane];
  for (long e = first; e < last; ++e) {
    const int count = starts[e];
    starts[e] = row;
    row += count;
    expert_ends[e] = row;
  }
}

// One item goes through the pairs and counts; of several each looks back from its own pairs.
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void moe_routing_place(
    global const int* ids, global int* counts, global int* starts, global int* rows, global int* row_tokens,
    global int* expert_ends, const MoeRoutingSortArguments args) {
  counts += args.counts_begin + get_group_id(0) * args.experts;
  starts += args.starts_begin;
  const Pairs pairs = pairs_of(ids, args);
  for (long i = pairs.first + LANE; i < pairs.last; i += LANES) {
    const int expert = expert_of(pairs, i);
    int row = starts[expert] + counts[expert];
#if LANES == 1
    ++counts[expert];
#else
    for (long before = pairs.first; before < i; ++before) row += expert_of(pairs, before) == expert;
#endif
    const long t = i / pairs.top_k;
    rows[args.rows_begin + t * args.rows_stride + i % pairs.top_k] = row;
    row_tokens[args.row_tokens_begin + row] = (int)t;
  }
}
