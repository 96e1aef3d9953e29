// int8 K and V in decode: rows are multiplied as they lie, and their scales leave the loop over dims. What
// all tokens of a sequence share leaves the loop over tokens, too; a token's own scale, without an offset,
// meets its score and its probability. A scale of a whole cache meets q and the result.
//
//   shared   q . ((k_t + offset) * scale)        =  (q * scale) . k_t  +  (q * scale) . offset       once a unit
//            sum_t p_t (v_t + offset) * scale    =  (sum_t p_t v_t  +  offset * sum_t p_t) * scale   once a split
//   tokens   q . (k_t * scale_t)                 =  (q . k_t) * scale_t                              once a tile
//            sum_t p_t (v_t * scale_t)           =  sum_t (p_t * scale_t) v_t
//
// With offsets of tokens, or shared ones beside scales of tokens, rows are widened first (attention/pack.hpp).
#pragma once

#include <inlay/core/online_softmax.hpp>

#include "cpu_kernels/attention/pack.hpp"
#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/attention/unit.hpp"
#include "cpu_kernels/simd/floats.hpp"

namespace inlay::cpu {

enum class KvScales { none, shared, tokens, widened };

INLAY_INLINE KvScales kv_scales(const AttentionKv<Host>& tensor, const HostSequence& sequence) {
  if (tensor.dtype() != DType::i8 || !tensor.scale.present()) return KvScales::none;
  const auto shared = [&](const ConstView<4>& view) {
    return !view.present() || (view.extents[1] == 1 && (view.extents[0] == 1 || sequence.blocks == nullptr));
  };
  if (shared(tensor.scale) && shared(tensor.offset)) return KvScales::shared;
  return tensor.offset.present() ? KvScales::widened : KvScales::tokens;
}

// Calls each(d, scale, offset) for every register of a head's dims.
template <class Level, class Each>
INLAY_INLINE void each_shared_scale(const AttentionKv<Host>& tensor, const HostSequence& sequence, index kv_head,
                                    Each&& each) {
  using F = simd::Floats<Level>;
  const QuantRow quant = quant_row(tensor, sequence.scale_outer, 0, kv_head);
  const auto channels = [](const float* x, index step, index d, index n) {
    return x == nullptr ? F() : step == 0 ? F(*x) : F::load(x + d, n);
  };
  for (index d = 0; d < tensor.dim; d += F::size) {
    const index n = min(tensor.dim - d, F::size);
    each(d, channels(quant.scale, quant.scale_step, d, n), channels(quant.offset, quant.offset_step, d, n));
  }
}

// q -> q * scale of K;  shift[r] = q * scale . offset, which row r's dot products lack.
template <class Level>
void fold_key_scales(const AttentionCall& p, const HostSequence& sequence, const AttentionUnit& unit, float* q,
                     float* shift) {
  using F = simd::Floats<Level>;
  for (index r = 0; r < unit.all(); ++r, q += padded(p.k.dim)) {
    F sum;
    each_shared_scale<Level>(p.k, sequence, unit.kv_head + r / unit.rows, [&](index d, F scale, F offset) {
      const F scaled = F::load(q + d) * scale;
      scaled.store(q + d);
      sum = fma(scaled, offset, sum);
    });
    shift[r] = reduce_sum(sum);
  }
}

template <class Level> void shift_scores(float* s, float shift) {
  using F = simd::Floats<Level>;
  for (index x = 0; x < key_tile; x += F::size) (F::load(s + x) + F(shift)).store(s + x);
}

// o = sum_t p_t v_t -> (o + offset * sum_t p_t) * scale of V. A row that saw no key keeps its zeros, whatever
// the scales are.
template <class Level>
void apply_value_scales(const AttentionCall& p, const HostSequence& sequence, const AttentionUnit& unit,
                        const SoftmaxState<float>* state, float* o) {
  using F = simd::Floats<Level>;
  for (index r = 0; r < unit.all(); ++r, o += padded(p.v.dim)) {
    if (state[r].sum == 0) continue;
    each_shared_scale<Level>(p.v, sequence, unit.kv_head + r / unit.rows, [&](index d, F scale, F offset) {
      (fma(offset, F(state[r].sum), F::load(o + d)) * scale).store(o + d);
    });
  }
}

// The scales of the given keys of a kv head as columns of the tile; 0 in the others.
struct TokenScales {
  float at[key_tile];

  INLAY_INLINE void gather(const AttentionCall& p, const HostSequence& sequence, const AttentionKv<Host>& tensor,
                           index kv_head, KeyRange keys) {
    for (float& scale : at) scale = 0;
    float* const to = at + keys.begin % key_tile;
    const index step = tensor.scale.extents[1] == 1 ? 0 : tensor.scale.strides[1];
    each_run(p, sequence, keys.begin, keys.end, [&](const KeyRun& run) INLAY_INLINE_LAMBDA {
      const float* const scale =
          tensor.scale.as<float>() + broadcast_row(tensor.scale, run.scale_outer, run.row, kv_head).first;
      for (index i = 0; i < run.count; ++i) to[run.at + i] = scale[i * step];
    });
  }
  template <class Level> void scale_scores(float* s) const {
    using F = simd::Floats<Level>;
    for (index x = 0; x < key_tile; x += F::size) (F::load(s + x) * F::load(at + x)).store(s + x);
  }
  // A key that is not seen stays so, whatever its scale.
  template <class Level> void scale_probabilities(float* p) const {
    using F = simd::Floats<Level>;
    for (index x = 0; x < key_tile; x += F::size) {
      const F seen = F::load(p + x);
      select(F() < seen, seen * F::load(at + x), seen).store(p + x);
    }
  }
};

}  // namespace inlay::cpu
