// A decoder model as a straight line of operators: Llama, Mistral, Qwen2 (bias), Qwen3 (QK norm) and
// InternLM2 differ by configuration only. `run` is called with one operator after the other; who
// it is decides what happens to them (Eager runs them at once).
//
// Activations are f32; linears of codes may round theirs (Activations). The residual stream is added to inside
// the norms: each norm takes the branch that the linear before it produced.
#pragma once

#include <cmath>
#include <utility>

#include <inlay/exec/batch.hpp>
#include <inlay/model/weights.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/paged_attention.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/swiglu.hpp>

namespace inlay::exec {

class Decoder {
 public:
  // Room for `max_tokens` in one pass. int8 activations are refused where all linears are floats: nothing
  // would be rounded.
  static Expected<Decoder> make(ModelConfig config, Weights weights, index max_tokens,
                                Activations activations = Activations::exact) {
    if (activations == Activations::int8 && weights.all_linears_are_float())
      return failure(StatusCode::invalid_argument,
                     "activations is int8; it must be exact for a model whose linears are all floats");
    Decoder decoder;
    const index qkv = (config.heads + 2 * config.kv_heads) * config.head_dim;
    const auto room = [&](OwnedTensor<2>& tensor, index columns) -> Status {
      auto made = OwnedTensor<2>::make(DType::f32, {max_tokens, columns});
      if (!made) return std::move(made.error());
      tensor = std::move(*made);
      return {};
    };
    const std::pair<OwnedTensor<2>*, index> tensors[] = {{&decoder.stream_, config.dim},
                                                         {&decoder.normed_, config.dim},
                                                         {&decoder.branch_, config.dim},
                                                         {&decoder.qkv_, qkv},
                                                         {&decoder.attended_, config.heads * config.head_dim},
                                                         {&decoder.gate_, config.hidden},
                                                         {&decoder.up_, config.hidden}};
    for (const auto& [tensor, columns] : tensors)
      if (Status status = room(*tensor, columns); !status.ok()) return failure(std::move(status));
    decoder.turns_.resize(weights.ropes.size());
    for (Turn& turn : decoder.turns_)
      for (OwnedTensor<2>* tensor : {&turn.cos, &turn.sin})
        if (Status status = room(*tensor, config.rope.dim / 2); !status.ok()) return failure(std::move(status));
    decoder.config_ = std::move(config);
    decoder.weights_ = std::move(weights);
    decoder.max_tokens_ = max_tokens;
    decoder.activations_ = activations;
    return decoder;
  }

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  index max_tokens() const { return max_tokens_; }

  // The batch's keys and values go into the cache; `logits` [rows, vocab] f32 gets those of the last
  // `rows` tokens.
  template <class Run> void forward(Run& run, const KvPool& cache, const Batch& batch, const View<2>& logits) const {
    const index tokens = batch.size();
    const auto rows = [&](const OwnedTensor<2>& tensor) { return tensor.view().slice(0, 0, tokens); };
    const View<2> stream = rows(stream_), normed = rows(normed_), branch = rows(branch_);

    for (std::size_t i = 0; i < turns_.size(); ++i)
      run(RopeTable<Host>{.positions = {batch.positions.data(), {1, tokens}},
                          .inv_freq = weights_.ropes[i].view(),
                          .cos = rows(turns_[i].cos),
                          .sin = rows(turns_[i].sin),
                          .magnitude = weights_.ropes[i].magnitude});
    run(Embedding<Host>{.table = weights_.embedding,
                        .row_scale = weights_.embedding_scale,
                        .ids = {batch.tokens.data(), {tokens}},
                        .y = stream,
                        .format = weights_.embedding_format});
    bool first = true;  // the first norm finds the embedding in the stream, the others add a branch to it
    for (index layer = 0; layer < config_.layers; ++layer) {
      const LayerWeights& w = weights_.layers[layer];
      norm(run, first ? stream : branch, first ? View<2>() : stream, w.attn_norm, normed);
      attention(run, w, cache, layer, batch, normed, branch);
      norm(run, branch, stream, w.ffn_norm, normed);
      feed_forward(run, w, normed, branch);
      first = false;
    }
    norm(run, first ? stream : branch, first ? View<2>() : stream, weights_.output_norm, normed);
    linear(run, weights_.head, normed.slice(0, tokens - logits.extents[0], logits.extents[0]), logits);
  }

 private:
  template <class Run>
  void linear(Run& run, const LinearWeight& weight, const ConstView<2>& x, const View<2>& y) const {
    weight(run, x, y, activations_);
  }

  template <class Run>
  void norm(Run& run, const View<2>& x, const View<2>& residual, const ConstView<1>& weight, const View<2>& y) const {
    run(RmsNorm<Host>{.x = x, .weight = weight, .residual = residual, .y = y, .eps = eps()});
  }

  template <class Run>
  void attention(Run& run, const LayerWeights& w, const KvPool& cache, index layer, const Batch& batch,
                 const View<2>& x, const View<2>& y) const {
    const index tokens = batch.size(), heads = config_.heads, kv_heads = config_.kv_heads, dim = config_.head_dim;
    const index row = qkv_.view().strides[0];
    // | q: heads x dim | k: kv_heads x dim | v: kv_heads x dim |
    float* const base = qkv_.view().as<float>();
    const View<2> q(base, {tokens, heads * dim}, {row, 1});
    const View<2> k(base + heads * dim, {tokens, kv_heads * dim}, {row, 1});
    const View<2> v(base + (heads + kv_heads) * dim, {tokens, kv_heads * dim}, {row, 1});
    const View<3> q_heads(base, {tokens, heads, dim}, {row, dim, 1});
    const View<3> k_heads(k.as<float>(), {tokens, kv_heads, dim}, {row, dim, 1});
    const View<3> v_heads(v.as<float>(), {tokens, kv_heads, dim}, {row, dim, 1});
    linear(run, w.q, x, q);
    linear(run, w.k, x, k);
    linear(run, w.v, x, v);
    if (config_.qk_norm) {
      run(RmsNorm<Host>{.x = q, .weight = w.q_norm, .y = q, .heads = heads, .eps = eps()});
      run(RmsNorm<Host>{.x = k, .weight = w.k_norm, .y = k, .heads = kv_heads, .eps = eps()});
    }
    const View<2> cos = turns_[w.rope].cos.view().slice(0, 0, tokens);
    const View<2> sin = turns_[w.rope].sin.view().slice(0, 0, tokens);
    const bool interleaved = config_.rope.pairing == RopeConfig::Pairing::interleaved;
    run(Rope<Host>{.x = q_heads, .cos = cos, .sin = sin, .y = q_heads, .interleaved = interleaved});
    run(Rope<Host>{.x = k_heads, .cos = cos, .sin = sin, .y = k_heads, .interleaved = interleaved});

    const View<4> keys = cache.keys(layer), values = cache.values(layer);
    run(ReshapeAndCache<Host>{.key = k_heads,
                              .value = v_heads,
                              .key_cache = flat_cache(keys),
                              .value_cache = flat_cache(values),
                              .slot_mapping = {batch.slots.data(), {tokens}}});
    const View<2> attended = attended_.view().slice(0, 0, tokens);
    const ConstView<2> tables(batch.block_table.data(), {batch.sequences(), batch.max_blocks});
    const ConstView<1> lengths(batch.kv_lens.data(), {batch.sequences()});
    // window_left counts the keys before the query, the configuration counts the query too.
    const index window = config_.layer(layer).window, window_left = window > 0 ? window - 1 : -1;
    if (batch.phase == Batch::Phase::decode) {
      run(PagedAttention<Host>{.q = q_heads,
                               .key_cache = ConstPagedView<>(flat_cache(keys)),
                               .value_cache = ConstPagedView<>(flat_cache(values)),
                               .block_tables = tables,
                               .context_lens = lengths,
                               .out = {attended.as<float>(), {tokens, heads, dim}},
                               .window_left = window_left});
    } else {
      run(FlashAttention<Host>{.q = {base, {1, tokens, heads, dim}, {tokens * row, row, dim, 1}},
                               .k = keys,
                               .v = values,
                               .out = {attended.as<float>(), {1, tokens, heads, dim}},
                               .q_indptr = {batch.q_indptr.data(), {batch.sequences() + 1}},
                               .kv_lens = lengths,
                               .block_table = tables,
                               .causal = true,
                               .window_left = window_left});
    }
    linear(run, w.output, attended, y);
  }

  template <class Run> void feed_forward(Run& run, const LayerWeights& w, const View<2>& x, const View<2>& y) const {
    // The buffers are as wide as the widest layer.
    const auto part = [&](const OwnedTensor<2>& buffer) {
      return buffer.view().slice(0, 0, x.extents[0]).slice(1, 0, w.gate.channels());
    };
    const View<2> gate = part(gate_), up = part(up_);
    linear(run, w.gate, x, gate);
    linear(run, w.up, x, up);
    run(Swiglu<Host>{.gate = gate, .up = up, .y = gate});
    linear(run, w.down, gate, y);
  }

  // cos and sin of the positions of one pass, for one theta.
  struct Turn {
    OwnedTensor<2> cos, sin;
  };

  float eps() const { return static_cast<float>(config_.rms_eps); }

  ModelConfig config_;
  Weights weights_;
  index max_tokens_ = 0;
  Activations activations_ = Activations::exact;
  OwnedTensor<2> stream_, normed_, branch_, qkv_, attended_, gate_, up_;
  std::vector<Turn> turns_;  // as Weights::ropes
};

}  // namespace inlay::exec
