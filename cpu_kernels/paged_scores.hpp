// From the dot products of one query head with a tile of tokens to weights: scale, bias and softcap, the
// online softmax.
#pragma once

#include <inlay/core/online_softmax.hpp>
#include <inlay/ops/paged_attention.hpp>

#include "cpu_kernels/attention_problem.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/tanh.hpp"

namespace inlay::cpu::paged {

inline constexpr index paged_tile = key_tile;  // tokens: their scores stay in L1, O is loaded once a tile

// What a query head adds to the score, and how scores become weights.
struct PagedScore {
  float scale, softcap;
  BiasOrder order;
};

// s: dot products -> scores, for heads that have more than a scale. distance[t] is key minus query
// position; key_scales is null for a float cache.
template <class Level>
void score_tile(const PagedScore& score, float* s, float slope, const float* distance, const float* key_scales) {
  using F = simd::Floats<Level>;
  const F scale(score.scale), cap(score.softcap), inverse_cap(1 / score.softcap);
  const auto capped = [&](F x) { return score.softcap > 0 ? cap * simd::tanh(x * inverse_cap) : x; };
  for (index i = 0; i < paged_tile; i += F::size) {
    F x = F::load(s + i);
    if (key_scales != nullptr) x = x * F::load(key_scales + i);
    if (slope == 0) {
      x = capped(x * scale);
    } else {
      const F bias = F(slope) * F::load(distance + i);
      switch (score.order) {
        case BiasOrder::scale_softcap_bias: x = capped(x * scale) + bias; break;
        case BiasOrder::bias_scale_softcap: x = capped((x + bias) * scale); break;
        case BiasOrder::scale_bias_softcap: x = capped(fma(x, scale, bias)); break;
      }
    }
    x.store(s + i);
  }
}

// s: scores over `scale` in, weights out (0 from `count` on); returns what O so far must be multiplied
// with. The tile stays in registers in between. value_scales is null for a float cache.
template <class Level>
float softmax_tile(float scale, float* s, index count, const float* value_scales, SoftmaxState<float>& state) {
  using F = simd::Floats<Level>;
  constexpr int vectors = paged_tile / F::size;
  const F minus_infinity(SoftmaxState<float>::minus_infinity);
  simd::Register<Level> x[vectors];
  INLAY_UNROLL
  for (int i = 0; i < vectors; ++i) x[i] = (F::load(s + i * F::size) * F(scale)).v;
  if (count < paged_tile) {
    INLAY_UNROLL
    for (int i = 0; i < vectors; ++i) {
      const index left = count - i * F::size;
      x[i] = select(F::first(left < 0 ? 0 : left < F::size ? left : F::size), F(x[i]), minus_infinity).v;
    }
  }
  F largest(state.max);
  INLAY_UNROLL
  for (int i = 0; i < vectors; ++i)
    largest = max(F(x[i]), largest);  // in this order a NaN is passed over; exp() brings it back
  const SoftmaxState<float> before = state;
  state.max = reduce_max(largest);
  const float factor = state.max == before.max ? 1.0f : state.weight(before.max);
  const F shift(state.max == SoftmaxState<float>::minus_infinity ? 0.0f : state.max);
  F sum;
  INLAY_UNROLL
  for (int i = 0; i < vectors; ++i) {
    F weight = exp(F(x[i]) - shift);
    sum = sum + weight;
    if (value_scales != nullptr) weight = weight * F::load(value_scales + i * F::size);
    weight.store(s + i * F::size);
  }
  state.sum = before.sum * factor + reduce_sum(sum);
  return factor;
}

}  // namespace inlay::cpu::paged
