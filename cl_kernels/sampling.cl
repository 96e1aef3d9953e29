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

kernel void begin(
    global Row* rows, global uint* of_rows, global const void* prompt_lengths, global int* faults,
    const SamplingBeginArguments args) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  global uint* of_row = of_rows + args.of_rows_begin + r * 3 * BINS;
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
  if (args.length_words != 0) {
    const long at = args.prompt_lengths_begin + r;
    const long length =
        args.length_words == 2 ? ((global const long*)prompt_lengths)[at] : ((global const int*)prompt_lengths)[at];
    if (length < 0 || length > args.history_length) {
      row->refused = 1;
      report_fault(faults, args.fault, args.first_row + r, length);
    }
  }
}

kernel void scan(global Row* rows, global const float* logits, global float* maxima, const SamplingScanArguments args) {
  const long r = get_group_id(1);
  logits += args.logits_begin + r * args.logits_stride;
  maxima += args.maxima_begin + r * args.blocks;
  float highest = -INFINITY;
  int bad = 0;
  for (long block = get_global_id(0); block < args.blocks; block += get_global_size(0)) {
    float of_block = -INFINITY;
    const long begin = block * BLOCK;
    if (begin + BLOCK <= args.vocab) {
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
      for (long i = begin; i < args.vocab; ++i) {
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
kernel void deviate(
    global Row* rows, global const float* logits, global Double* sums, const SamplingDeviateArguments args) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  logits += args.logits_begin + r * args.logits_stride;
  for (long block = get_global_id(0); block < args.blocks; block += get_global_size(0)) {
    Double sum = OF_FLOAT(0.0f);
    int finite = 0;
    for (long i = block * BLOCK; i < min(args.vocab, (block + 1) * BLOCK); ++i) {
      if (logits[i] == -INFINITY) continue;
      const Double logit = OF_FLOAT(logits[i]), v = DIFFERENCE(logit, row->mean);
      sum = SUM(sum, args.squares ? PRODUCT(v, v) : logit);
      ++finite;
    }
    sums[args.sums_begin + r * args.blocks + block] = sum;
    if (!args.squares) atomic_add(&row->finite, finite);
  }
}
kernel void add_deviations(global Row* rows, global const Double* sums, const SamplingAddDeviationsArguments args) {
  global Row* row = ROW_OF(get_global_id(1));
  if (lost(row)) return;
  Double sum = OF_FLOAT(0.0f);
  for (long block = 0; block < args.blocks; ++block)
    sum = SUM(sum, sums[args.sums_begin + get_global_id(1) * args.blocks + block]);
  const Double mean = QUOTIENT(sum, OF_LONG(row->finite));
  if (args.squares)
    row->low = DIFFERENCE(OF_FLOAT(of_order(row->highest)), PRODUCT(OF_FLOAT(args.n), ROOT(mean)));
  else
    row->mean = mean;
}

// A block at a time: few work-items ask for a place in the list at once. Its order does not matter.
kernel void gather(
    global Row* rows, global const float* logits, global const float* maxima, global int* ids, global float* listed,
    const SamplingGatherArguments args) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  logits += args.logits_begin + r * args.logits_stride;
  ids += args.ids_begin + r * args.room;
  listed += args.listed_begin + r * args.room;
  const uint bound = max((uint)(row->cut >> 32), ORDER_OF_MINUS_INFINITY + 1);
  const float least = of_order(bound);
  const Double low = row->low;
  const bool all_count = TO_FLOAT(low) == -INFINITY;
  for (long block = get_global_id(0); block < args.blocks; block += get_global_size(0)) {
    if (order_of(maxima[args.maxima_begin + r * args.blocks + block]) < bound) continue;
    const long begin = block * BLOCK, end = min(args.vocab, begin + BLOCK);
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
kernel void pad(global Row* rows, global float* listed, const SamplingPadArguments args) {
  global Row* row = ROW_OF(get_global_id(1));
  if (lost(row)) return;
  for (long i = row->count; i % WIDE != 0; ++i)
    listed[args.listed_begin + get_global_id(1) * args.room + i] = -INFINITY;
}

// Greedy: the smallest id of the largest logit, of a row, whose blocks tell where it may be, or of its list.
kernel void likeliest(
    global Row* rows, global const float* logits, global const float* maxima, const SamplingScanArguments args) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  logits += args.logits_begin + r * args.logits_stride;
  const float highest = of_order(row->highest);
  for (long block = get_global_id(0); block < args.blocks; block += get_global_size(0)) {
    if (maxima[args.maxima_begin + r * args.blocks + block] != highest) continue;
    long i = block * BLOCK;
    while (logits[i] != highest) ++i;
    atomic_min(&row->token, (int)i);
    return;  // this work-item's other blocks come later
  }
}
kernel void likeliest_of_list(
    global Row* rows, global const int* ids, global const float* listed, const SamplingLikeliestOfListArguments args) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (lost(row)) return;
  const float highest = of_order(row->highest);
  for (long i = get_global_id(0); i < row->count; i += get_global_size(0))
    if (listed[args.listed_begin + r * args.room + i] == highest)
      atomic_min(&row->token, ids[args.ids_begin + r * args.room + i]);
}

kernel void clear_probs(global Row* rows, global float* probs, const SamplingClearProbsArguments args) {
  const long r = get_group_id(1);
  if (ROW_OF(r)->refused) return;
  for (long i = get_global_id(0); i < args.vocab; i += get_global_size(0))
    probs[args.probs_begin + r * args.probs_stride + i] = 0;
}
kernel void write_probs(
    global Row* rows, global const int* ids, global const float* listed, global float* probs,
    const SamplingWriteProbsArguments args) {
  const long r = get_group_id(1);
  global const Row* row = ROW_OF(r);
  if (lost(row)) return;
  ids += args.ids_begin + r * args.room;
  listed += args.listed_begin + r * args.room;
  const Double total = total_of(row, args.scale);
  for (long i = get_global_id(0) * WIDE; i < row->count; i += get_global_size(0) * WIDE) {
    const FLOATS v = GATHER(listed, i);
    float logit[WIDE];
    Double p[WIDE];
    SPREAD(v, logit);
    SPREAD(QUOTIENT(exp_not_positive(exponent_of(v, row, args.temperature)), total), p);
    for (int e = 0; e < WIDE; ++e)
      if (logit[e] > -INFINITY) probs[args.probs_begin + r * args.probs_stride + ids[i + e]] = TO_FLOAT(p[e]);
  }
}

// The first token of the caller's row that is not finite, of a row that has no token.
kernel void blame(global Row* rows, global const float* logits, const SamplingBlameArguments args) {
  const long r = get_group_id(1);
  global Row* row = ROW_OF(r);
  if (row->refused || !row->bad) return;
  logits += args.logits_begin + r * args.logits_stride;
  int first = INT_MAX;
  for (long i = get_global_id(0); i < args.vocab; i += get_global_size(0))
    if (!(logits[i] <= FLT_MAX)) first = min(first, (int)i);
  if (first != INT_MAX) atomic_min(&row->blamed, first);
}

// One work-item for all rows: of those without a token the first is told.
kernel void finish(
    global Row* rows, global const float* logits, global void* tokens, global float* probs, global int* faults,
    const SamplingFinishArguments args) {
  for (long r = 0; r < args.count; ++r) {
    global const Row* row = ROW_OF(r);
    if (row->refused) continue;
    int token = args.greedy ? row->token : (int)(args.id_mask - (long)row->prefix);
    if (lost(row)) {
      token = -1;
      // Twice the token, and one more for a NaN; -1: the penalties' doing, or all are masked.
      long what = -1;
      if (row->blamed != INT_MAX) {
        const float v = logits[args.logits_begin + r * args.logits_stride + row->blamed];
        what = 2 * (long)row->blamed + isnan(v);
      }
      report_fault(faults, args.fault, args.first_row + r, what);
    } else if (args.greedy && probs) {
      probs[args.probs_begin + r * args.probs_stride + token] = 1;
    }
    if (args.token_words == 2)
      ((global long*)tokens)[args.tokens_begin + r] = token;
    else
      ((global int*)tokens)[args.tokens_begin + r] = token;
  }
}
