// A token for each row of logits (ops/sampling.hpp has the stages).
//
// A row is swept by as many groups as keep the device busy; what they find meets in its Row by atomics. No kernel waits
// for another but by the queue, and no number that decides depends on the order of work-items: masses are fixed point
// (sampling_row.clh), the rest are largest values, counts, and sums of blocks in a fixed order.
//
//   penalties   into a copy of the row
//   scan        the largest logit of each block of 64, and whether the row is sound
//   gather      tokens that may be kept, into a list: with top_k, those of at least the k-th largest block's
//   filters     measure the list, aim at a mass or a number of tokens, select a cut (sampling_select.clh), keep
//   draw        the first id whose running mass passes u times the whole is a selection too
#ifndef LANES
#define LANES 1
#endif
#include "cl_kernels/sampling_select.clh"

#define ROW_OF(r) (rows + rows_begin + (r))

// What `keep` leaves and `aim` aims at. Numbers shared with sampling.cpp.
#define KEEP_WEIGHTS 0   // above e^-708 of the largest
#define KEEP_FIRST 1     // from the cut on: top_k, top_p
#define KEEP_NEAR 2      // typical_p
#define KEEP_FRACTION 3  // min_p
#define KEEP_LAST 4      // xtc

kernel void begin(global Row* rows, long rows_begin, global uint* of_rows, long of_rows_begin,
                  global const int* prompt_lengths, long prompt_lengths_begin, int length_words, long first_row,
                  long history_length, global int* record, int place) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  global uint* of_row = of_rows + of_rows_begin + r * 3 * BINS;
  for (int b = LANE; b < 3 * BINS; b += LANES) of_row[b] = 0;
  if (LANE != 0) return;
  row->highest = row->highest_left = 0;
  row->bad = row->refused = row->finite = row->count = row->above = 0;
  row->blamed = row->token = INT_MAX;
  row->total[0] = row->total[1] = row->lean[0] = row->lean[1] = 0;
  row->done = 0, row->in_bin = 0;
  row->prefix = row->target = row->cut = row->nearest = 0;
  row->last = ULONG_MAX;
  row->mean = 0, row->low = -INFINITY;
  if (length_words != 0) {
    const long at = prompt_lengths_begin + r;
    const long length = length_words == 2 ? ((global const long*)prompt_lengths)[at] : prompt_lengths[at];
    if (length < 0 || length > history_length) {
      row->refused = 1;
      offend(record, place, first_row + r, length);
    }
  }
}

// Penalties: three sweeps over the history of a row. counts are of its tokens only.
kernel void copy_logits(global const float* logits, long logits_begin, long logits_stride, global float* copy,
                        long copy_begin, long vocab) {
  const long r = get_group_id(1);
  logits += logits_begin + r * logits_stride;
  copy += copy_begin + r * vocab;
  for (long i = get_global_id(0); i < vocab; i += get_global_size(0)) copy[i] = logits[i];
}

#define FORGET 0
#define COUNT 1
#define PENALISE 2
#define PENALISED -1
kernel void history(global Row* rows, long rows_begin, global const int* history, long history_begin,
                    long history_stride, int history_words, long length, global const int* prompt_lengths,
                    long prompt_lengths_begin, int length_words, global int* counts, long counts_begin,
                    global float* copy, long copy_begin, long vocab, int sweep, float repetition, float frequency,
                    float presence, long first_row, global int* record, int place) {
  const long r = get_group_id(1), i = get_global_id(0);
  if (i >= length || ROW_OF(r)->refused) return;
  const long at = history_begin + r * history_stride + i, length_at = prompt_lengths_begin + r;
  const long id = history_words == 2 ? ((global const long*)history)[at] : history[at];
  if (id < 0) return;
  if (id >= vocab) {
    if (sweep == FORGET) offend(record, place, (first_row + r) * length + i, id);
    ROW_OF(r)->refused = 1;
    return;
  }
  volatile global int* count = counts + counts_begin + r * vocab + id;
  if (sweep == FORGET) *count = 0;
  if (sweep == COUNT) {
    long output = 0;
    if (length_words == 1) output = prompt_lengths[length_at];
    if (length_words == 2) output = ((global const long*)prompt_lengths)[length_at];
    if (i >= output) atomic_inc(count);
  }
  if (sweep == PENALISE) {
    const int times = atomic_xchg(count, PENALISED);
    if (times == PENALISED) return;
    float v = copy[copy_begin + r * vocab + id];
    // A quotient of floats, rounded in double and once more, is f32's own.
    v = v > 0 ? convert_float((double)v / (double)repetition) : v * repetition;
    if (times > 0) {
      const float by_count = (float)times * frequency;
      v = v - (by_count + presence);
    }
    copy[copy_begin + r * vocab + id] = v;
  }
}

kernel void scan(global Row* rows, long rows_begin, global const float* logits, long logits_begin, long logits_stride,
                 global float* maxima, long maxima_begin, long vocab, long blocks) {
  const long r = get_group_id(1);
  logits += logits_begin + r * logits_stride;
  maxima += maxima_begin + r * blocks;
  float highest = -INFINITY;
  int bad = 0;
  for (long block = get_global_id(0); block < blocks; block += get_global_size(0)) {
    float of_block = -INFINITY;
    const long begin = block * BLOCK;
    if (begin + BLOCK <= vocab) {
      float8 largest = -INFINITY;
      int8 not_finite = 0;
      for (int i = 0; i < BLOCK; i += 8) {
        const float8 v = vload8(0, logits + begin + i);
        largest = fmax(largest, v);
        not_finite |= ~(v <= FLT_MAX);
      }
      const float4 half_of = fmax(largest.lo, largest.hi);
      of_block = fmax(fmax(half_of.x, half_of.y), fmax(half_of.z, half_of.w));
      bad |= any(not_finite);
    } else {
      for (long i = begin; i < vocab; ++i) {
        of_block = fmax(of_block, logits[i]);
        bad |= !(logits[i] <= FLT_MAX);
      }
    }
    maxima[block] = of_block;
    highest = fmax(highest, of_block);
  }
  atomic_max(&ROW_OF(r)->highest, order_of(highest));
  if (bad) atomic_or(&ROW_OF(r)->bad, 1);
}

// top_n_sigma: sums of blocks, in an order of their own; then of the row. `squares` after the mean is known.
kernel void deviate(global Row* rows, long rows_begin, global const float* logits, long logits_begin,
                    long logits_stride, global double* sums, long sums_begin, long vocab, long blocks, int squares) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  logits += logits_begin + r * logits_stride;
  for (long block = get_global_id(0); block < blocks; block += get_global_size(0)) {
    double sum = 0;
    int finite = 0;
    for (long i = block * BLOCK; i < min(vocab, (block + 1) * BLOCK); ++i) {
      if (logits[i] == -INFINITY) continue;
      const double v = squares ? logits[i] - row->mean : logits[i];
      sum += squares ? v * v : v;
      ++finite;
    }
    sums[sums_begin + r * blocks + block] = sum;
    if (!squares) atomic_add(&row->finite, finite);
  }
}
kernel void add_deviations(global Row* rows, long rows_begin, global const double* sums, long sums_begin, long blocks,
                           int squares, float n) {
  global Row* row = ROW_OF(get_global_id(1));
  if (lost(row)) return;
  double sum = 0;
  for (long block = 0; block < blocks; ++block) sum += sums[sums_begin + get_global_id(1) * blocks + block];
  if (squares)
    row->low = of_order(row->highest) - (double)n * sqrt(sum / row->finite);
  else
    row->mean = sum / row->finite;
}

// A block at a time: few work-items ask for a place in the list at once. Its order does not matter.
kernel void gather(global Row* rows, long rows_begin, global const float* logits, long logits_begin,
                   long logits_stride, global const float* maxima, long maxima_begin, global int* ids, long ids_begin,
                   global float* listed, long listed_begin, long vocab, long blocks, long room) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  logits += logits_begin + r * logits_stride;
  ids += ids_begin + r * room;
  listed += listed_begin + r * room;
  const uint bound = max((uint)(row->cut >> 32), ORDER_OF_MINUS_INFINITY + 1);
  const double low = row->low;
  for (long block = get_global_id(0); block < blocks; block += get_global_size(0)) {
    if (order_of(maxima[maxima_begin + r * blocks + block]) < bound) continue;
    const long begin = block * BLOCK, end = min(vocab, begin + BLOCK);
    int found = 0;
    for (long i = begin; i < end; ++i) found += order_of(logits[i]) >= bound && !(logits[i] < low);
    if (found == 0) continue;
    int at = atomic_add(&row->count, found);
    for (long i = begin; i < end; ++i)
      if (order_of(logits[i]) >= bound && !(logits[i] < low)) {
        ids[at] = (int)i;
        listed[at++] = logits[i];
      }
  }
}
// The list is read WIDE entries at a time.
kernel void pad(global Row* rows, long rows_begin, global float* listed, long listed_begin, long room) {
  global Row* row = ROW_OF(get_global_id(1));
  if (lost(row)) return;
  for (long i = row->count; i % WIDE != 0; ++i) listed[listed_begin + get_global_id(1) * room + i] = -INFINITY;
}

// The masses of the list: their sum, and that of -z, weighed; or how many tokens have a share of the whole (xtc).
kernel void measure(global Row* rows, long rows_begin, global const float* listed, long listed_begin, long room,
                    float temperature, float scale, int leans, float threshold) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  listed += listed_begin + r * room;
  const double share = threshold * (convert_double(words_of(row->total)) / scale);
  ULONGS total = 0, lean = 0;
  int above = 0;
  for (long i = get_global_id(0) * WIDE; i < row->count; i += get_global_size(0) * WIDE) {
    const FLOATS logit = GATHER(listed, i);
    const DOUBLES z = exponent_of(logit, row, temperature), weight = exp_not_positive(z);
    if (threshold >= 0) {
      float of[WIDE];
      double weights[WIDE];
      SPREAD(logit, of);
      SPREAD(weight, weights);
      for (int e = 0; e < WIDE; ++e) above += of[e] > -INFINITY && weights[e] >= share;
    } else {
      total += TO_ULONGS(weight * scale + 0.5);
      // z is at least -708 where there is a weight, and weight * -z at most 1/e.
      if (leans) lean += TO_ULONGS(weight * fmin(-z, 1000.0) * scale + 0.5);
    }
  }
  ulong totals[WIDE], leanings[WIDE];
  SPREAD(total, totals);
  SPREAD(lean, leanings);
  for (int e = 1; e < WIDE; ++e) totals[0] += totals[e], leanings[0] += leanings[e];
  if (totals[0] != 0) add_to_global(row->total, totals[0]);
  if (leanings[0] != 0) add_to_global(row->lean, leanings[0]);
  if (above != 0) atomic_add(&row->above, above);
}

#define AIM_TOP 0      // at `number` blocks or tokens
#define AIM_MASS 1     // at a share of the whole
#define AIM_NEAR 2     // at a share, of the nearest to the mean
#define AIM_TIES 3     // at what is left of it, among those that are equally near
#define AIM_ABOVE 4    // at the last of the tokens that xtc may drop
#define AIM_DRAW 5
kernel void aim(global Row* rows, long rows_begin, int at_what, long number, float share, global const long* seeds,
                long seeds_begin, global const long* steps, long steps_begin, long seed, long step, long first_row) {
  const long r = get_global_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  const bool ties_decide = row->in_bin > 1;
  const ulong total = words_of(row->total);
  // The numbers of the row: u in the first two words of the hash, xtc's in the others.
  const ulong key = (ulong)(seeds ? seeds[seeds_begin + r] : seed), drawn = (ulong)(steps ? steps[steps_begin + r] : step);
  const uint4 words = philox(key, (uint4)((uint)drawn, (uint)(drawn >> 32), seeds ? 0 : (uint)(first_row + r), 0));
  row->done = 0;
  switch (at_what) {
    case AIM_TOP:
      row->target = (ulong)number;
      row->done = row->count != 0 && number >= row->count;
      break;
    case AIM_MASS:
    case AIM_NEAR:
      row->target = clamp(convert_ulong(ceil((double)share * convert_double(total))), (ulong)1, total);
      row->mean = -convert_double(words_of(row->lean)) / convert_double(total);
      break;
    case AIM_TIES:
      row->nearest = row->cut;
      row->done = !ties_decide;
      break;
    case AIM_ABOVE:
      row->target = (ulong)row->above;
      row->done = row->above < 2 || !(unit_interval(words.z, words.w) * 0x1p-53 < (double)share);
      break;
    case AIM_DRAW:
      row->target = mul_hi(unit_interval(words.x, words.y) << 11, total) + 1;
      break;
  }
  row->prefix = row->cut = 0;
  row->last = ULONG_MAX;
}

// A token that is dropped becomes -infinity in the list.
kernel void keep(global Row* rows, long rows_begin, global const int* ids, long ids_begin, global float* listed,
                 long listed_begin, long room, int which, float fraction, float temperature) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  ids += ids_begin + r * room;
  listed += listed_begin + r * room;
  uint highest = 0;
  for (long i = get_global_id(0) * WIDE; i < row->count; i += get_global_size(0) * WIDE) {
    const FLOATS v = GATHER(listed, i);
    const DOUBLES z = exponent_of(v, row, temperature);
    float logit[WIDE];
    double of_z[WIDE], weight[WIDE];
    ulong near[WIDE];
    SPREAD(v, logit);
    SPREAD(z, of_z);
    SPREAD(exp_not_positive(z), weight);
    SPREAD(nearness(z, row), near);
    for (int e = 0; e < WIDE; ++e) {
      if (logit[e] == -INFINITY) continue;
      const ulong key = likelihood(logit[e], ids[i + e]);
      const bool stays = which == KEEP_WEIGHTS    ? of_z[e] >= LEAST_Z
                         : which == KEEP_FIRST    ? key >= row->cut
                         : which == KEEP_NEAR     ? near[e] > row->nearest || (near[e] == row->nearest && key >= row->cut)
                         : which == KEEP_FRACTION ? weight[e] >= (double)fraction
                                                  : key <= row->last;
      if (stays)
        highest = max(highest, order_of(logit[e]));
      else
        listed[i + e] = -INFINITY;
    }
  }
  if (highest != 0) atomic_max(&row->highest_left, highest);
}
// Weights are relative to the largest that is left.
kernel void settle(global Row* rows, long rows_begin) {
  global Row* row = ROW_OF(get_global_id(1));
  if (lost(row)) return;
  row->highest = row->highest_left;
  row->highest_left = 0;
}
kernel void clear_sums(global Row* rows, long rows_begin) {
  global Row* row = ROW_OF(get_global_id(1));
  row->total[0] = row->total[1] = row->lean[0] = row->lean[1] = 0;
}

// Greedy: the smallest id of the largest logit, of a row or (with ids) of its list.
kernel void likeliest(global Row* rows, long rows_begin, global const int* ids, long ids_begin, global const float* logits,
                      long logits_begin, long logits_stride, long vocab) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  logits += logits_begin + r * logits_stride;
  const float highest = of_order(row->highest);
  int best = INT_MAX;
  for (long i = get_global_id(0), count = ids ? row->count : vocab; i < count; i += get_global_size(0))
    if (logits[i] == highest) best = min(best, ids ? ids[ids_begin + r * logits_stride + i] : (int)i);
  if (best != INT_MAX) atomic_min(&row->token, best);
}

kernel void clear_probs(global Row* rows, long rows_begin, global float* probs, long probs_begin, long probs_stride,
                        long vocab) {
  const long r = get_group_id(1);
  if (ROW_OF(r)->refused) return;
  for (long i = get_global_id(0); i < vocab; i += get_global_size(0)) probs[probs_begin + r * probs_stride + i] = 0;
}
kernel void write_probs(global Row* rows, long rows_begin, global const int* ids, long ids_begin,
                        global const float* listed, long listed_begin, long room, float temperature, float scale,
                        global float* probs, long probs_begin, long probs_stride) {
  const long r = get_group_id(1);
  global const Row* row = ROW_OF(r);
  if (lost(row)) return;
  ids += ids_begin + r * room;
  listed += listed_begin + r * room;
  const double total = convert_double(words_of(row->total)) / scale;
  for (long i = get_global_id(0) * WIDE; i < row->count; i += get_global_size(0) * WIDE) {
    const FLOATS v = GATHER(listed, i);
    float logit[WIDE];
    double p[WIDE];
    SPREAD(v, logit);
    SPREAD(exp_not_positive(exponent_of(v, row, temperature)) / total, p);
    for (int e = 0; e < WIDE; ++e)
      if (logit[e] > -INFINITY) probs[probs_begin + r * probs_stride + ids[i + e]] = convert_float(p[e]);
  }
}

// The first token of the caller's row that is not finite, of a row that has no token.
kernel void blame(global Row* rows, long rows_begin, global const float* logits, long logits_begin, long logits_stride,
                  long vocab) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (row->refused || !row->bad) return;
  logits += logits_begin + r * logits_stride;
  int first = INT_MAX;
  for (long i = get_global_id(0); i < vocab; i += get_global_size(0))
    if (!(logits[i] <= FLT_MAX)) first = min(first, (int)i);
  if (first != INT_MAX) atomic_min(&row->blamed, first);
}

// One work-item for all rows: of those without a token the first is told.
kernel void finish(global Row* rows, long rows_begin, global const float* logits, long logits_begin, long logits_stride,
                   global int* tokens, long tokens_begin, int token_words, global float* probs, long probs_begin,
                   long probs_stride, long count, int greedy, long id_mask, long first_row, global int* record,
                   int place) {
  for (long r = 0; r < count; ++r) {
    global const Row* row = ROW_OF(r);
    if (row->refused) continue;
    int token = greedy ? row->token : (int)(id_mask - (long)row->prefix);
    if (lost(row)) {
      token = -1;
      // Twice the token, and one more for a NaN; -1: the penalties' doing, or all are masked.
      long what = -1;
      if (row->blamed != INT_MAX) what = 2l * row->blamed + isnan(logits[logits_begin + r * logits_stride + row->blamed]);
      offend(record, place, first_row + r, what);
    } else if (greedy && probs) {
      probs[probs_begin + r * probs_stride + token] = 1;
    }
    if (token_words == 2)
      ((global long*)tokens)[tokens_begin + r] = token;
    else
      tokens[tokens_begin + r] = token;
  }
}
