// One sweep over a row in f32 registers finds the maximum of every block of 64 logits and whether
// the row is sound. With top_k, the k-th largest of these maxima is a bound below the k-th largest
// logit: only blocks above it are looked into, and a few hundred candidates remain of 128256 tokens.
// What follows is scalar code in double over the candidates (sampling_row.hpp).
//
// Bytes: the row read once: memory is the limit with top_k; without, exp in double over every token.
#pragma once

#include <inlay/core/workspace.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/sampling.hpp>

#include <limits>

#include "cpu_kernels/sampling_row.hpp"
#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

inline constexpr index logit_block = 64;
INLAY_INLINE index logit_blocks(index vocab) { return (vocab + logit_block - 1) / logit_block; }

// Scratch of one thread.
template <class Level> struct SamplingScratch {
  float* logits;  // a copy, where penalties change them
  float* maxima;  // of the blocks
  Candidates<Level> candidates;

  SamplingScratch(WorkspaceCutter& cutter, index vocab)
      : logits(cutter.take<float>(vocab)),
        maxima(cutter.take<float>(logit_blocks(vocab))),
        candidates{.id = cutter.take<std::int32_t>(vocab),
                   .logit = cutter.take<float>(vocab),
                   .weight = cutter.take<double>(vocab),
                   .key = cutter.take<double>(vocab),
                   .heap = cutter.take<std::int32_t>(vocab)} {}
  static std::size_t bytes(index vocab) {
    return 2 * WorkspaceCutter::padded<float>(vocab) + WorkspaceCutter::padded<float>(logit_blocks(vocab)) +
           2 * WorkspaceCutter::padded<std::int32_t>(vocab) + 2 * WorkspaceCutter::padded<double>(vocab);
  }
};

INLAY_INLINE index sampling_pieces(const Parallel& parallel, index rows) { return min(rows, parallel.width); }

// The row with its penalties, in scratch. `counts` is borrowed: entries of the history only.
template <class Level> const float* penalised(const Sampling<Host>& op, index r, float* copy, std::int32_t* counts) {
  constexpr std::int32_t done = -1;
  const index vocab = op.logits.extents[1], length = op.history.extents[1];
  const float* row = row_of<float>(op.logits, r);
  __builtin_memcpy(copy, row, static_cast<std::size_t>(vocab) * sizeof(float));
  const auto token = [&](index i) -> index {
    return op.history.dtype == DType::i64 ? row_of<std::int64_t>(op.history, r)[i]
                                          : row_of<std::int32_t>(op.history, r)[i];
  };
  for (index i = 0; i < length; ++i)
    if (token(i) >= 0) counts[token(i)] = 0;
  for (index i = output_begin(op, r); i < length; ++i)
    if (token(i) >= 0) ++counts[token(i)];
  for (index i = 0; i < length; ++i) {
    const index id = token(i);
    if (id < 0 || counts[id] == done) continue;
    float v = copy[id];
    v = v > 0 ? v / op.repetition_penalty : v * op.repetition_penalty;
    if (counts[id] > 0) v = v - (static_cast<float>(counts[id]) * op.frequency_penalty + op.presence_penalty);
    copy[id] = v;
    counts[id] = done;
  }
  return copy;
}

// The row's maximum; NaN where it holds a NaN or +infinity. max returns its second operand where one
// is NaN, so `bounded` keeps NaN and lifts -infinity: bounded - bounded is 0 or, for the two, NaN.
template <class Level> float block_maxima(const float* row, index vocab, float* maxima) {
  using F = simd::Floats<Level>;
  const F lowest(std::numeric_limits<float>::lowest()), minus_infinity(-std::numeric_limits<float>::infinity());
  F bad, most = minus_infinity;
  for (index begin = 0; begin < vocab; begin += logit_block) {
    const index end = min(begin + logit_block, vocab);
    F of_block = minus_infinity;
    registers<F>(begin, end, [&](index i, auto n) {
      F v = load<F>(row + i, n);
      if constexpr (!std::is_same_v<decltype(n), All>) v = select(F::first(n), v, minus_infinity);
      const F bounded = max(lowest, v);
      bad = bad + (bounded - bounded);
      of_block = max(of_block, v);
    });
    maxima[begin / logit_block] = reduce_max(of_block);
    most = max(most, of_block);
  }
  const float doubt = reduce_sum(bad);
  return doubt != doubt ? doubt : reduce_max(most);
}

// A bound below the k-th largest logit: k blocks have a maximum at or above it.
template <class Level> float top_bound(const float* maxima, index blocks, index k, std::int32_t* heap) {
  if (k <= 0 || k > blocks) return -std::numeric_limits<float>::infinity();
  for (index b = 0; b < blocks; ++b) heap[b] = static_cast<std::int32_t>(b);
  const auto before = [&](index a, index b) { return maxima[a] > maxima[b]; };
  make_heap(heap, blocks, before);
  std::int32_t last = 0;
  for (index taken = 0; taken < k; ++taken) last = pop_heap(heap, blocks - taken, before);
  return maxima[last];
}

template <class Level> INLAY_INLINE float block_minimum(const float* row) {
  using F = simd::Floats<Level>;
  F least = F::load(row);
  for (index i = F::size; i < logit_block; i += F::size) least = min(least, F::load(row + i));
  return reduce_min(least);
}

// Tokens at or above `bound` that are not masked, in ascending order of id.
template <class Level>
void gather(const float* row, index vocab, const float* maxima, float bound, Candidates<Level>& candidates) {
  constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
  const bool all = bound == minus_infinity;
  candidates.count = 0;
  for (index begin = 0; begin < vocab; begin += logit_block) {
    if (maxima[begin / logit_block] < bound) continue;
    const index end = min(begin + logit_block, vocab);
    if (all && end - begin == logit_block && block_minimum<Level>(row + begin) > minus_infinity) {
      __builtin_memcpy(candidates.logit + candidates.count, row + begin, logit_block * sizeof(float));
      for (index i = 0; i < logit_block; ++i)
        candidates.id[candidates.count + i] = static_cast<std::int32_t>(begin + i);
      candidates.count += logit_block;
      continue;
    }
    for (index i = begin; i < end; ++i) {
      candidates.id[candidates.count] = static_cast<std::int32_t>(i);
      candidates.logit[candidates.count] = row[i];
      candidates.count += row[i] >= bound && row[i] > minus_infinity;
    }
  }
}

// The stages between; one candidate or more stays.
template <class Level> void filter(const Sampling<Host>& op, double u_xtc, Candidates<Level>& candidates) {
  const double temperature = op.temperature_last ? 1 : op.temperature;
  if (op.top_k > 0) candidates.keep_top(op.top_k);
  candidates.weigh(temperature);
  if (op.typical_p < 1) candidates.keep_typical(op.typical_p, temperature);
  if (op.top_p < 1) candidates.keep_mass(op.top_p);
  if (op.min_p > 0) candidates.keep_min(op.min_p);
  if (u_xtc < op.xtc_probability) candidates.drop_top_choices(op.xtc_threshold);
  if (op.temperature_last && op.temperature > 0) candidates.weigh(op.temperature);
}

// The token of row r, or -1.
template <class Level> index sample_row(const Sampling<Host>& op, index r, SamplingScratch<Level>& scratch) {
  const index vocab = op.logits.extents[1];
  Candidates<Level>& candidates = scratch.candidates;
  const float* row =
      op.history.present() ? penalised<Level>(op, r, scratch.logits, candidates.heap) : row_of<float>(op.logits, r);
  float* probs = op.probs.present() ? row_of<float>(op.probs, r) : nullptr;
  if (probs) __builtin_memset(probs, 0, static_cast<std::size_t>(vocab) * sizeof(float));
  const float most = block_maxima<Level>(row, vocab, scratch.maxima);
  if (!(most >= std::numeric_limits<float>::lowest())) return -1;

  const bool sigma = op.top_n_sigma > 0 && op.top_n_sigma < std::numeric_limits<float>::infinity();
  float bound = sigma ? -std::numeric_limits<float>::infinity()  // its mean takes every token
                      : top_bound<Level>(scratch.maxima, logit_blocks(vocab), op.top_k, candidates.heap);
  const bool greedy = op.temperature == 0 && !op.temperature_last;
  if (greedy) bound = most;
  gather(row, vocab, scratch.maxima, bound, candidates);
  index chosen = 0;
  if (!greedy) {
    const SamplingNumbers numbers = sampling_numbers(op, r);
    if (sigma) candidates.keep_sigma(op.top_n_sigma);
    filter(op, numbers.xtc, candidates);
    chosen = op.temperature == 0 ? candidates.likeliest() : candidates.draw(numbers.draw);
  }
  const index token = candidates.id[chosen];
  if (probs && op.temperature == 0) {
    probs[token] = 1;
  } else if (probs) {
    const double total = candidates.total();
    for (index i = 0; i < candidates.count; ++i)
      probs[candidates.id[i]] = static_cast<float>(candidates.weight[i] / total);
  }
  return token;
}

template <class Level> Status sampling(const Parallel& parallel, const Sampling<Host>& op, Workspace workspace) {
  const index rows = op.logits.extents[0], vocab = op.logits.extents[1], pieces = sampling_pieces(parallel, rows);
  const std::size_t scratch_bytes = SamplingScratch<Level>::bytes(vocab);
  // Where nothing but the largest logit is asked for it is less.
  const Work work = static_cast<double>(rows * vocab) * Work{.bytes = 8, .operations = 50};
  parallel(pieces, work, [&](index piece) {
    WorkspaceCutter cutter(workspace.subspan(static_cast<std::size_t>(piece) * scratch_bytes));
    SamplingScratch<Level> scratch(cutter, vocab);
    for (index r = rows * piece / pieces; r < rows * (piece + 1) / pieces; ++r) {
      const index token = sample_row(op, r, scratch);
      if (op.tokens.dtype == DType::i64)
        *row_of<std::int64_t>(op.tokens, r) = token;
      else
        *row_of<std::int32_t>(op.tokens, r) = static_cast<std::int32_t>(token);
    }
  });
  return {};
}

template <> struct Kernels<Sampling<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const Sampling<Host>& op, Workspace workspace) {
    return sampling<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel& parallel, const Sampling<Host>& op) {
    return static_cast<std::size_t>(sampling_pieces(parallel, op.logits.extents[0])) *
           SamplingScratch<Level>::bytes(op.logits.extents[1]);
  }
};

}  // namespace inlay::cpu
