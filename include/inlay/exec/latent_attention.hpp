// Queries, keys and values of multi-head latent attention (LatentConfig), with the buffers of one pass. The cache has
// the keys and values of all heads, as any other model's: what attends need not know of latent vectors.
#pragma once

#include <utility>
#include <vector>

#include <inlay/exec/decoder_weights.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/rms_norm.hpp>

namespace inlay::exec {

template <class Space> class LatentAttention {
 public:
  using Rows = View<2, Space>;
  using Heads = View<3, Space>;  // [tokens, heads, elements of each]
  using Layer = typename DecoderWeights<Space>::Layer;

  // For passes of at most so many tokens, in the memory of `tensors`.
  template <class Tensors> Status take_room(const ModelConfig& config, index max_tokens, Tensors& tensors) {
    latent_ = config.latent, heads_ = config.heads, head_dim_ = config.head_dim;
    const index q = heads_ * head_dim_, first = latent_.q_rank > 0 ? latent_.q_rank : q;
    std::vector<std::pair<Rows*, index>> wanted = {{&rows_, first + latent_.kv_rank + latent_.rope_dim},
                                                   {&kv_, heads_ * (nope_dim() + latent_.value_dim)}};
    if (latent_.q_rank > 0) wanted.emplace_back(&q_, q);
    for (const auto& [rows, columns] : wanted)
      if (Status status = take(tensors, DType::f32, {max_tokens, columns}, *rows); !status.ok()) return status;
    return {};
  }

  // The keys and values of x go into the cache of the layer; returned is q. `rotate(heads)` turns them by the layer's
  // rope, in place.
  template <class Run, class Rotate>
  Heads operator()(Run& run, const Layer& w, const Rows& x, const Rotate& rotate, const KvLayer<Space>& cache,
                   const ConstView<1, Space>& slots) const {
    const index tokens = x.extents[0], nope = nope_dim(), rope = latent_.rope_dim;
    const auto normed = [&](const Rows& part, const ConstView<1, Space>& weight) {
      run(RmsNorm<Space>{.x = part, .weight = weight, .y = part, .eps = static_cast<float>(latent_.norm_eps)});
      return part;
    };
    // | q: q_rank, or heads x head_dim | c: kv_rank | r: rope |
    const index first = rows_.extents[1] - latent_.kv_rank - rope;
    const Rows rows = rows_.slice(0, 0, tokens);
    run_linears(run, w.qkv, x, rows);
    Rows q = rows.slice(1, 0, first);
    if (latent_.q_rank > 0) {
      const Rows short_q = normed(q, w.latent->q_norm);
      q = q_.slice(0, 0, tokens);
      w.latent->q_b(run, short_q, q);
    }
    const Heads q_heads = by_head(q, 0, head_dim_, head_dim_);
    const Rows kv = kv_.slice(0, 0, tokens);
    w.latent->kv_b(run, normed(rows.slice(1, first, latent_.kv_rank), w.latent->kv_norm), kv);
    const Rows shared = rows.slice(1, first + latent_.kv_rank, rope);
    rotate(by_head(q, nope, rope, head_dim_));
    rotate(Heads(shared.data, DType::f32, {tokens, 1, rope}, {shared.strides[0], rope, 1}));

    // A key is written in two parts, of which the second is the same in all heads: so it need not be put together
    // first. An i8 cache would want one scale for both (check_kv_type).
    const index of_head = nope + latent_.value_dim;  // | k: nope | v: value_dim |
    run(ReshapeAndCache<Space>{.k = by_head(kv, 0, nope, of_head),
                               .v = by_head(kv, nope, latent_.value_dim, of_head),
                               .k_cache = flat_cache(cache.k.slice(3, 0, nope)),
                               .v_cache = flat_cache(cache.v),
                               .slot_mapping = slots});
    run(ReshapeAndCache<Space>{.k = Heads(shared.data, DType::f32, {tokens, heads_, rope}, {shared.strides[0], 0, 1}),
                               .k_cache = flat_cache(cache.k.slice(3, nope, rope)),
                               .slot_mapping = slots});
    return q_heads;
  }

 private:
  index nope_dim() const { return head_dim_ - latent_.rope_dim; }

  // Of each head, which has `of_head` elements in a row, `count` from `first` on.
  Heads by_head(const Rows& rows, index first, index count, index of_head) const {
    return {
        rows.slice(1, first, count).data, DType::f32, {rows.extents[0], heads_, count}, {rows.strides[0], of_head, 1}};
  }

  LatentConfig latent_;
  index heads_ = 0, head_dim_ = 0;
  Rows rows_, q_, kv_;
};

}  // namespace inlay::exec
