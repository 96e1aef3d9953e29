// The choice of one token: its scores a register at a time, then the largest ones one by one.
//
// Who is the largest of many is looked up in two steps, so that taking top_k of 256 experts reads 16 numbers for each,
// not 256:
//
//   choice   c0 c1 .. c15 | c16 .. c31 | ..     what is taken, or not in a group that is kept, becomes -inf; the rest
//   maxima   m0           | m1         | ..     is finite
#pragma once

#include <inlay/core/workspace.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/moe_routing.hpp>

#include <limits>

#include "cpu_kernels/simd/sigmoid.hpp"
#include "cpu_kernels/support/elementwise.hpp"

namespace inlay::cpu {

inline constexpr index choice_block = 16;  // a multiple of all registers
INLAY_INLINE index whole_blocks(index count) { return groups_of(count, choice_block) * choice_block; }

// Scratch of one thread: s and c of the experts, c's maxima, the values of groups, and which of them are kept.
template <class Level> struct RoutingScratch {
  float *score, *choice, *maxima, *value;
  std::int32_t* kept;

  RoutingScratch(WorkspaceCutter& cutter, index experts, index groups)
      : score(cutter.take<float>(experts)),
        choice(cutter.take<float>(whole_blocks(experts))),
        maxima(cutter.take<float>(whole_blocks(groups_of(experts, choice_block)))),
        value(cutter.take<float>(whole_blocks(groups))),
        kept(cutter.take<std::int32_t>(groups)) {}
  static std::size_t bytes(index experts, index groups) {
    return WorkspaceCutter::padded<float>(experts) + WorkspaceCutter::padded<float>(whole_blocks(experts)) +
           WorkspaceCutter::padded<float>(whole_blocks(groups_of(experts, choice_block))) +
           WorkspaceCutter::padded<float>(whole_blocks(groups)) + WorkspaceCutter::padded<std::int32_t>(groups);
  }
};

inline constexpr float routing_largest = std::numeric_limits<float>::max();
inline constexpr float routing_gone = -std::numeric_limits<float>::infinity();

// Finite; NaN, of which max gives the second operand, is the lowest.
template <class F> INLAY_INLINE F held_finite(F v) { return min(F(routing_largest), max(v, F(-routing_largest))); }

template <class Level> INLAY_INLINE float block_maximum(const float* block) {
  using F = simd::Floats<Level>;
  F most = F::load(block);
  for (index i = F::size; i < choice_block; i += F::size) most = max(most, F::load(block + i));
  return reduce_max(most);
}

// The first of the largest: values are whole blocks.
template <class Level> INLAY_INLINE index first_largest(const float* values, index count) {
  using F = simd::Floats<Level>;
  F most = F::load(values);
  for (index i = F::size; i < count; i += F::size) most = max(most, F::load(values + i));
  const float value = reduce_max(most);
  index at = 0;
  while (values[at] != value) ++at;
  return at;
}

// The numbers of the `taken` largest of `count` values, largest first, of equals the lower. Room behind the values and
// in `maxima` is there for whole blocks.
template <class Level>
void take_largest(float* values, index count, float* maxima, index taken, std::int32_t* numbers) {
  const index blocks = groups_of(count, choice_block), all = whole_blocks(blocks);
  for (index i = count; i < blocks * choice_block; ++i) values[i] = routing_gone;
  for (index b = 0; b < blocks; ++b) maxima[b] = block_maximum<Level>(values + b * choice_block);
  for (index b = blocks; b < all; ++b) maxima[b] = routing_gone;
  for (index j = 0; j < taken; ++j) {
    const index b = first_largest<Level>(maxima, all);
    float* const block = values + b * choice_block;
    index lane = 0;
    while (block[lane] != maxima[b]) ++lane;
    numbers[j] = static_cast<std::int32_t>(b * choice_block + lane);
    block[lane] = routing_gone;
    maxima[b] = block_maximum<Level>(block);
  }
}

// s and c of a token; gives NaN where one of its logits is.
template <class Level, class T>
float score_experts(const MoeRouting<Host>& op, const T* logits, const RoutingScratch<Level>& scratch) {
  using F = simd::Floats<Level>;
  const index experts = op.logits.extents[1];
  float *const score = scratch.score, *const choice = scratch.choice;
  F most(-routing_largest), doubt;
  registers<F>(0, experts, [&](index i, auto n) {
    const F logit = load<F>(logits + i, n), held = held_finite(logit);
    doubt = doubt + max(F(-routing_largest), min(F(routing_largest), logit)) * F();  // these keep NaN
    store(held, choice + i, n);
    if constexpr (std::is_same_v<decltype(n), All>)
      most = max(most, held);
    else
      most = max(most, select(F::first(n), held, most));
  });
  const float shift = reduce_max(most);
  F sum;
  registers<F>(0, experts, [&](index i, auto n) {
    const F logit = load<F>(choice + i, n);
    if (op.score == MoeScore::softmax) {
      const F power = exp_below(logit - F(shift));
      store(power, score + i, n);
      if constexpr (std::is_same_v<decltype(n), All>)
        sum = sum + power;
      else
        sum = sum + select(F::first(n), power, F());
    } else {
      store(op.score == MoeScore::sigmoid ? simd::sigmoid(logit) : logit, score + i, n);
    }
  });
  const F inverse(op.score == MoeScore::softmax ? 1 / reduce_sum(sum) : 1);
  if (op.score == MoeScore::softmax || op.bias.present())
    registers<F>(0, experts, [&](index i, auto n) {
      const F s = load<F>(score + i, n) * inverse;
      store(s, score + i, n);
      if (op.bias.present()) store(held_finite(s + load<F>(op.bias.as<float>() + i, n)), choice + i, n);
    });
  return reduce_sum(doubt);
}

// The largest value, or the sum of the two largest. Each lane keeps its own two: the second of all is one that is less
// than the largest, a second where the lane has the largest, or, of two lanes that have it, the largest again.
template <class Level> float group_value(const float* values, index count, bool sums_two) {
  using F = simd::Floats<Level>;
  F first(routing_gone), second(routing_gone);
  registers<F>(0, count, [&](index i, auto n) {
    F v = load<F>(values + i, n);
    if constexpr (!std::is_same_v<decltype(n), All>) v = select(F::first(n), v, F(routing_gone));
    second = max(second, min(first, v));
    first = max(first, v);
  });
  const float largest = reduce_max(first);
  if (!sums_two) return largest;
  const F those(largest);
  const float lanes = reduce_sum(select(first < those, F(), F(1.0f)));
  const float sum = largest + (lanes > 1 ? largest : reduce_max(select(first < those, first, second)));
  return held_finite(simd::Floats<isa::scalar>(sum)).v;
}

// Experts of groups that are not kept are gone.
template <class Level> void keep_groups(const MoeRouting<Host>& op, const RoutingScratch<Level>& scratch) {
  if (op.groups_kept == op.groups) return;
  const index of_group = op.logits.extents[1] / op.groups;
  const bool sums_two = op.group_score == MoeGroupScore::sum_of_two;
  // Where choices are logits, the sum is one of scores, whose two largest belong to the two largest choices.
  const float* const values = sums_two && !op.bias.present() ? scratch.score : scratch.choice;
  for (index g = 0; g < op.groups; ++g)
    scratch.value[g] = group_value<Level>(values + g * of_group, of_group, sums_two);
  take_largest<Level>(scratch.value, op.groups, scratch.maxima, op.groups_kept, scratch.kept);
  for (index g = 0; g < op.groups; ++g)
    if (scratch.value[g] != routing_gone)  // those that were taken are
      for (index e = g * of_group; e < (g + 1) * of_group; ++e) scratch.choice[e] = routing_gone;
}

// Sparsemixer's weights: each choice's share among the experts that are left and near it. `score` has logits, of which
// those that were chosen go.
template <class Level>
void weigh_near(const MoeRouting<Host>& op, float* score, const std::int32_t* ids, float* weights) {
  using F = simd::Floats<Level>;
  const index experts = op.logits.extents[1], top_k = op.weights.extents[1];
  const F jitter(2 * op.jitter);
  for (index j = 0; j < top_k; ++j) {
    const F largest(score[ids[j]]);
    F sum;
    registers<F>(0, experts, [&](index i, auto n) {
      const F logit = load<F>(score + i, n), distance = largest - logit;
      F power = select(jitter * max(abs(logit), largest) < distance, F(), exp_below(F() - distance));
      if constexpr (!std::is_same_v<decltype(n), All>) power = select(F::first(n), power, F());
      sum = sum + power;
    });
    weights[j] = 1 / reduce_sum(sum);
    score[ids[j]] = routing_gone;
  }
}

template <class Level>
void weigh_chosen(const MoeRouting<Host>& op, float* score, const std::int32_t* ids, float doubt, float* weights) {
  const index top_k = op.weights.extents[1];
  float sum = 0;
  if (op.score == MoeScore::sparsemixer)
    weigh_near<Level>(op, score, ids, weights);
  else
    for (index j = 0; j < top_k; ++j) weights[j] = score[ids[j]];
  if (op.score == MoeScore::softmax_of_chosen) {
    const float most = weights[0];
    for (index j = 0; j < top_k; ++j) sum += weights[j] = __builtin_expf(weights[j] - most);
    for (index j = 0; j < top_k; ++j) weights[j] /= sum;
    sum = 0;
  }
  for (index j = 0; j < top_k; ++j) sum += weights[j];
  const float divisor = op.renormalize ? sum + 1e-20f : 1;
  for (index j = 0; j < top_k; ++j) weights[j] = weights[j] / divisor * op.scale + doubt;  // 0 or NaN
}

template <class Level, class T>
void route_token(const MoeRouting<Host>& op, index t, const RoutingScratch<Level>& scratch) {
  const float doubt = score_experts<Level>(op, row_of<T>(op.logits, t), scratch);
  keep_groups(op, scratch);
  std::int32_t* const ids = row_of<std::int32_t>(op.ids, t);
  take_largest<Level>(scratch.choice, op.logits.extents[1], scratch.maxima, op.weights.extents[1], ids);
  weigh_chosen<Level>(op, scratch.score, ids, doubt, row_of<float>(op.weights, t));
}

}  // namespace inlay::cpu
