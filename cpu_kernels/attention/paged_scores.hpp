// From the dot products of one query head with a tile of tokens to scores: scale, bias and softcap.
#pragma once

#include <inlay/ops/paged_attention.hpp>

#include "cpu_kernels/attention/scores.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/simd/tanh.hpp"

namespace inlay::cpu::paged {

inline constexpr index paged_tile = key_tile;  // tokens: their scores stay in L1, O is loaded once a tile

INLAY_INLINE float alibi_slope(const PagedAttention<Host>& op, index head) {
  return op.alibi_slopes.present() ? op.alibi_slopes.as<float>()[head * op.alibi_slopes.strides[0]] : 0.0f;
}

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

// Whether a query head's score is its scaled dot product: then q is scaled instead.
INLAY_INLINE bool only_scaled(const PagedAttention<Host>& op, index head) {
  return op.softcap == 0 && op.key_cache.dtype != DType::i8 && alibi_slope(op, head) == 0;
}

}  // namespace inlay::cpu::paged
