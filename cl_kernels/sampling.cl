// A token for each row of logits (ops/sampling.hpp has the stages).
//
// A row is swept by as many groups as keep the device busy; what they find meets in its Row by atomics. No kernel waits
// for another but by the queue, and no number that decides depends on the order of work-items: masses are fixed point
// (sampling/weights.clh), the rest are largest values, counts, and sums of blocks in a fixed order.
//
//   penalties   into a copy of the row
//   scan        the largest logit of each block of 64, and whether the row is sound
//   gather      tokens that may be kept, into a list: with top_k, those of at least the k-th largest block's
//   filters     measure the list, aim at a mass or a number of tokens, select a cut (sampling/select.clh), keep
//   draw        the first id whose running mass passes u times the whole: a selection too
#ifndef LANES
#define LANES 1
#endif
#include "cl_kernels/sampling/filters.clh"
#include "cl_kernels/sampling/penalties.clh"
#include "cl_kernels/sampling/select.clh"

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
  row->mean = OF_FLOAT(0.0f), row->low = OF_FLOAT(-INFINITY);
  if (length_words != 0) {
    const long at = prompt_lengths_begin + r;
    const long length = length_words == 2 ? ((global const long*)prompt_lengths)[at] : prompt_lengths[at];
    if (length < 0 || length > history_length) {
      row->refused = 1;
      offend(record, place, first_row + r, length);
    }
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
                    long logits_stride, global Double* sums, long sums_begin, long vocab, long blocks, int squares) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  logits += logits_begin + r * logits_stride;
  for (long block = get_global_id(0); block < blocks; block += get_global_size(0)) {
    Double sum = OF_FLOAT(0.0f);
    int finite = 0;
    for (long i = block * BLOCK; i < min(vocab, (block + 1) * BLOCK); ++i) {
      if (logits[i] == -INFINITY) continue;
      const Double logit = OF_FLOAT(logits[i]), v = DIFFERENCE(logit, row->mean);
      sum = SUM(sum, squares ? PRODUCT(v, v) : logit);
      ++finite;
    }
    sums[sums_begin + r * blocks + block] = sum;
    if (!squares) atomic_add(&row->finite, finite);
  }
}
kernel void add_deviations(global Row* rows, long rows_begin, global const Double* sums, long sums_begin, long blocks,
                           int squares, float n) {
  global Row* row = ROW_OF(get_global_id(1));
  if (lost(row)) return;
  Double sum = OF_FLOAT(0.0f);
  for (long block = 0; block < blocks; ++block) sum = SUM(sum, sums[sums_begin + get_global_id(1) * blocks + block]);
  const Double mean = QUOTIENT(sum, OF_LONG(row->finite));
  if (squares)
    row->low = DIFFERENCE(OF_FLOAT(of_order(row->highest)), PRODUCT(OF_FLOAT(n), ROOT(mean)));
  else
    row->mean = mean;
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
  const float least = of_order(bound);
  const Double low = row->low;
  const bool all_count = TO_FLOAT(low) == -INFINITY;
  for (long block = get_global_id(0); block < blocks; block += get_global_size(0)) {
    if (order_of(maxima[maxima_begin + r * blocks + block]) < bound) continue;
    const long begin = block * BLOCK, end = min(vocab, begin + BLOCK);
    int found = 0;
    if (end - begin == BLOCK && all_count) {
      float8 enough = 0;  // in floats: oclgrind 21.10 adds 255 for what is true in a vector of int
      for (int i = 0; i < BLOCK; i += 8)
        enough += select((float8)(0.0f), (float8)(1.0f), vload8(0, logits + begin + i) >= least);
      const float4 half_of = enough.lo + enough.hi;
      found = (int)(half_of.x + half_of.y + half_of.z + half_of.w);
    } else {
      for (long i = begin; i < end; ++i) found += logits[i] >= least && AT_LEAST(OF_FLOAT(logits[i]), low);
    }
    if (found == 0) continue;
    int at = atomic_add(&row->count, found);
    if (found == BLOCK) {
      for (int i = 0; i < BLOCK; i += 8) {
        vstore8((int)begin + i + (int8)(0, 1, 2, 3, 4, 5, 6, 7), 0, ids + at + i);
        vstore8(vload8(0, logits + begin + i), 0, listed + at + i);
      }
      continue;
    }
    for (long i = begin; i < end; ++i)
      if (logits[i] >= least && AT_LEAST(OF_FLOAT(logits[i]), low)) {
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

// Greedy: the smallest id of the largest logit, of a row, whose blocks tell where it may be, or of its list.
kernel void likeliest(global Row* rows, long rows_begin, global const float* logits, long logits_begin,
                      long logits_stride, global const float* maxima, long maxima_begin, long vocab, long blocks) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  logits += logits_begin + r * logits_stride;
  const float highest = of_order(row->highest);
  for (long block = get_global_id(0); block < blocks; block += get_global_size(0)) {
    if (maxima[maxima_begin + r * blocks + block] != highest) continue;
    long i = block * BLOCK;
    while (logits[i] != highest) ++i;
    atomic_min(&row->token, (int)i);
    return;  // this work-item's other blocks come later
  }
}
kernel void likeliest_of_list(global Row* rows, long rows_begin, global const int* ids, long ids_begin,
                              global const float* listed, long listed_begin, long room) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  const float highest = of_order(row->highest);
  for (long i = get_global_id(0); i < row->count; i += get_global_size(0))
    if (listed[listed_begin + r * room + i] == highest) atomic_min(&row->token, ids[ids_begin + r * room + i]);
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
  const Double total = total_of(row, scale);
  for (long i = get_global_id(0) * WIDE; i < row->count; i += get_global_size(0) * WIDE) {
    const FLOATS v = GATHER(listed, i);
    float logit[WIDE];
    Double p[WIDE];
    SPREAD(v, logit);
    SPREAD(QUOTIENT(exp_not_positive(exponent_of(v, row, temperature)), total), p);
    for (int e = 0; e < WIDE; ++e)
      if (logit[e] > -INFINITY) probs[probs_begin + r * probs_stride + ids[i + e]] = TO_FLOAT(p[e]);
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
      if (row->blamed != INT_MAX) {
        const float v = logits[logits_begin + r * logits_stride + row->blamed];
        what = 2 * (long)row->blamed + isnan(v);
      }
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
