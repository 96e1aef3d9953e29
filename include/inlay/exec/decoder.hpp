// A decoder model as a straight line of operators: families differ by the facts of ModelConfig only. `run` is called
// with one operator after the other; who it is decides what happens to them (Eager runs them at once).
//
// Activations are f32; linears may round theirs (Activations). The residual stream is added to inside the norms: each
// norm before a branch takes the branch that the linear before it produced.
//
// Granite's residual_scale r costs nothing: the stream is kept as x / r. Its norms do not see the factor, if their eps
// is divided by r^2.
//
// Everything lies in one memory space: weights were uploaded there once, activations never leave it.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <inlay/exec/batch.hpp>
#include <inlay/exec/decoder_weights.hpp>
#include <inlay/exec/feed_forward.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/exec/latent_attention.hpp>
#include <inlay/exec/layer_inputs.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/model/model_ropes.hpp>
#include <inlay/model/weights.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/layer_norm.hpp>
#include <inlay/ops/paged_attention.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>

namespace inlay::exec {

template <class Space = Host> class Decoder {
 public:
  // Room for `max_tokens` in one pass, in the memory of `tensors`, which must outlive the decoder. int8 activations
  // are refused where all linears are floats, bf16 ones where none is: nothing would be rounded. One rank of several
  // has a gatherer, which outlives the decoder; config and weights are its own (RankCut).
  template <class Tensors>
  static Expected<Decoder> make(ModelConfig config, Weights weights, index max_tokens, Tensors& tensors,
                                Activations activations = Activations::exact,
                                AttentionCompute attention = AttentionCompute::exact_float,
                                Gatherer* gatherer = nullptr) {
    if (activations == Activations::int8 && weights.all_linears_are(true))
      return failure(StatusCode::invalid_argument,
                     "activations is int8; it must be exact or bf16 for a model whose linears are all floats");
    if (activations == Activations::bf16 && weights.all_linears_are(false))
      return failure(StatusCode::invalid_argument,
                     "activations is bf16; it must be exact or int8 for a model none of whose linears are floats");
    Decoder decoder;
    decoder.config_ = std::move(config);
    decoder.max_tokens_ = max_tokens;
    decoder.of_prompts_ = attention;
    if (Status status = decoder.take_room(tensors); !status.ok()) return failure(std::move(status));
    auto there = DecoderWeights<Space>::make(weights, tensors, activations, gatherer, max_tokens);
    if (!there) return failure(std::move(there.error()));
    decoder.weights_ = std::move(*there);
    if (Status status = decoder.take_frequencies(tensors); !status.ok()) return failure(std::move(status));
    if (tensors.looks_at_host()) decoder.of_host_ = std::move(weights);
    return decoder;
  }

  const ModelConfig& config() const { return config_; }
  index max_tokens() const { return max_tokens_; }

  // `pairs` [copies, 2] i64: what forward begins with.
  template <class Run> void copy_blocks(Run& run, const KvPool<Space>& cache, const ConstView<2, Space>& pairs) const {
    if (pairs.empty()) return;
    for (index layer = 0; layer < config_.layers; ++layer) {
      const KvLayer<Space> of = cache.layer(layer);
      if (!of.k.present()) continue;  // the layer looks at another's
      run(CopyBlocks<Space>{.k_cache = flat_cache(of.k),
                            .v_cache = flat_cache(of.v),
                            .k_scale = of.k_scale,
                            .v_scale = of.v_scale,
                            .pairs = pairs});
    }
  }

  // Blocks that the batch copies are copied; its keys and values go into the cache; `logits` [rows, vocab] f32 gets
  // those of the tokens that the batch names, or of the last `rows`.
  template <class Run>
  void forward(Run& run, const KvPool<Space>& cache, const BatchViews<Space>& batch,
               const View<2, Space>& logits) const {
    const index tokens = batch.size();
    Residual stream{.stream = stream_.slice(0, 0, tokens), .branch = branch_.slice(0, 0, tokens)};
    const Rows normed = normed_.slice(0, 0, tokens);

    copy_blocks(run, cache, batch.copies);
    for (const RopeTables& rope : ropes_)
      run(RopeTable<Space>{.positions = batch.positions,
                           .inv_freq = rope.inv_freq,
                           .cos = rope.cos.slice(0, 0, tokens),
                           .sin = rope.sin.slice(0, 0, tokens),
                           .magnitude = rope.magnitude});
    run(weights_.embedding(batch.tokens, stream.stream, config_.embed_scale / config_.residual_scale));
    if (config_.embed_norm) norm_without_weights(run, stream.stream, stream.stream, 1);
    if (inputs_.present()) inputs_.prepare(run, weights_, batch.tokens, stream.stream);
    for (index layer = 0; layer < config_.layers; ++layer) {
      const Layer& w = weights_.layers[layer];
      const LayerConfig facts = config_.layer(layer);
      enter_layer(run, layer);
      const Rows before = read(run, stream, w.attn_norm, normed);
      const index kv_layer = facts.kv_layer == LayerConfig::own_kv ? layer : facts.kv_layer;
      attention(run, layer, cache.layer(kv_layer), batch, before, stream.branch);
      write(run, stream, w.attn_post_norm);
      const Rows behind = read(run, stream, w.ffn_norm, normed);
      feed_forward_(run, w, facts, config_.parallel ? before : behind, stream.stream, stream.branch);
      write(run, stream, w.ffn_post_norm);
      if (inputs_.present()) {
        inputs_(run, *w.input, layer, read(run, stream, Norm(), normed), stream.branch);
        write(run, stream, {.weight = w.input->post_norm, .bias = {}});
      }
      if (w.scale != 1) run(scaled<Space>(read(run, stream, Norm(), normed), w.scale));
    }
    enter_layer(run, -1);
    const Rows last = read(run, stream, weights_.output_norm, normed);
    const index rows = logits.extents[0];
    Rows wanted = last.slice(0, tokens - rows, rows);
    if (batch.logit_rows.present()) {
      wanted = branch_.slice(0, 0, rows);  // which the stream has by now
      run(Embedding<Space>{.table = last, .ids = batch.logit_rows, .y = wanted});
    }
    weights_.head(run, wanted, logits);
    if (config_.final_softcap > 0)
      run(Gelu<Space>{
          .x = logits, .y = logits, .form = GeluForm::softcap, .cap = static_cast<float>(config_.final_softcap)});
  }

 private:
  using Rows = View<2, Space>;

  using Norm = typename DecoderWeights<Space>::Norm;
  using Layer = typename DecoderWeights<Space>::Layer;
  // cos and sin of the positions of one pass, for one of the model's ropes.
  struct RopeTables {
    ConstView<2, Space> inv_freq;
    float magnitude = 1;
    Rows cos, sin;
  };
  // The residual stream, and the branch that is still to be added to it where `open`.
  struct Residual {
    Rows stream, branch;
    bool open = false;
  };

  // Who asks in which layer operators are; -1: in none.
  template <class Run> static void enter_layer(Run& run, index layer) {
    if constexpr (requires { run.enter_layer(layer); }) run.enter_layer(layer);
  }

  // What the next branch reads: the stream, through its norm where there is one.
  template <class Run> Rows read(Run& run, Residual& x, const Norm& norm, const Rows& normed) const {
    const bool open = std::exchange(x.open, false), has_norm = norm.weight.present();
    const double eps = config_.norm_eps / (config_.residual_scale * config_.residual_scale);
    if (has_norm)
      normalise(run, norm, open ? x.branch : x.stream, open ? x.stream : Rows(), normed, static_cast<float>(eps));
    else if (open)
      run(Add<Space>{.a = x.stream, .b = x.branch, .y = x.stream});
    return has_norm ? normed : x.stream;
  }
  template <class Run>
  void normalise(Run& run, const Norm& norm, const Rows& x, const Rows& residual, const Rows& y, float eps) const {
    if (config_.norm == NormKind::rms)
      run(RmsNorm<Space>{.x = x, .weight = norm.weight, .residual = residual, .y = y, .eps = eps});
    else
      run(LayerNorm<Space>{.x = x, .weight = norm.weight, .bias = norm.bias, .residual = residual, .y = y, .eps = eps});
  }
  // The branch is there; whoever reads the stream next adds it.
  template <class Run> void write(Run& run, Residual& x, const Norm& norm) const {
    if (norm.weight.present()) normalise(run, norm, x.branch, Rows(), x.branch, eps());
    x.open = true;
  }

  // Of each of `heads` parts of a row.
  template <class Run> void norm_without_weights(Run& run, const Rows& x, const Rows& y, index heads) const {
    const ConstView<1, Space> ones = weights_.ones.slice(0, 0, x.extents[1] / heads);
    run(RmsNorm<Space>{.x = x, .weight = ones, .y = y, .heads = heads, .eps = eps()});
  }

  using Heads = View<3, Space>;  // [tokens, heads, head_dim]

  template <class Run>
  void attention(Run& run, index layer, const KvLayer<Space>& cache, const BatchViews<Space>& batch, const Rows& x,
                 const Rows& y) const {
    const Layer& w = weights_.layers[layer];
    const LayerConfig facts = config_.layer(layer);
    const auto rotate = [&](const Heads& heads) {
      if (facts.rope == LayerConfig::no_rope) return;
      const auto place = static_cast<std::size_t>(facts.rope);
      run(Rope<Space>{.x = heads,
                      .cos = ropes_[place].cos.slice(0, 0, batch.size()),
                      .sin = ropes_[place].sin.slice(0, 0, batch.size()),
                      .y = heads,
                      .interleaved = config_.ropes[place].pairing == RopeConfig::Pairing::interleaved});
    };
    const Heads q = config_.is_latent() ? latent_(run, w, x, rotate, cache, batch.slots)
                                        : queries(run, w, facts, x, rotate, cache, batch.slots);
    const Rows attended(attended_.data, DType::f32, {batch.size(), config_.heads * config_.value_dim(facts)});
    attend(run, facts, batch, q, cache, w.sinks, attended);
    w.output(run, attended, y);
  }

  // The keys and values of x go into the cache of the layer, where it has one of its own; returned is q.
  template <class Run, class Rotate>
  Heads queries(Run& run, const Layer& w, const LayerConfig& facts, const Rows& x, const Rotate& rotate,
                const KvLayer<Space>& cache, const ConstView<1, Space>& slots) const {
    const index tokens = x.extents[0], heads = config_.heads, kv_heads = facts.kv_heads, dim = facts.head_dim;
    const bool has_kv = facts.kv_layer == LayerConfig::own_kv;
    // | q: heads x dim | k: kv_heads x dim | v: kv_heads x dim |
    const Rows rows = qkv_.slice(0, 0, tokens);
    const Rows q = rows.slice(1, 0, heads * dim), k = rows.slice(1, heads * dim, kv_heads * dim);
    const Rows v = rows.slice(1, (heads + kv_heads) * dim, kv_heads * dim);
    const auto by_head = [&](const Rows& part, index count) {
      return Heads(part.data, DType::f32, {tokens, count, dim}, {rows.strides[0], dim, 1});
    };
    const Heads q_heads = by_head(q, heads), k_heads = by_head(k, kv_heads), v_heads = by_head(v, kv_heads);
    run_linears(run, w.qkv, x, rows);
    if (has_kv && config_.v_norm) norm_without_weights(run, facts.v_is_k ? k : v, v, kv_heads);
    const auto turned = [&](const Rows& part, const Heads& parts, const ConstView<1, Space>& weight) {
      const index of_row = config_.qk_norm == QkNorm::row ? 1 : parts.extents[1];
      const auto norm = [&] {
        run(RmsNorm<Space>{.x = part, .weight = weight, .y = part, .heads = of_row, .eps = eps()});
      };
      if (config_.qk_norm == QkNorm::head || config_.qk_norm == QkNorm::row) norm();
      if (config_.qk_norm == QkNorm::each_head) norm_each_head(run, part, weight);
      rotate(parts);
      if (config_.qk_norm == QkNorm::head_behind_rope) norm();
    };
    turned(q, q_heads, w.q_norm);
    if (!has_kv) return q_heads;
    turned(k, k_heads, w.k_norm);
    run(ReshapeAndCache<Space>{.k = k_heads,
                               .v = v_heads,
                               .k_cache = flat_cache(cache.k),
                               .v_cache = flat_cache(cache.v),
                               .slot_mapping = slots,
                               .k_scale = cache.k_scale,
                               .v_scale = cache.v_scale});
    return q_heads;
  }

  template <class Run> void norm_each_head(Run& run, const Rows& rows, const ConstView<1, Space>& weight) const {
    const index dim = config_.head_dim;
    for (index first = 0; first < rows.extents[1]; first += dim) {
      const Rows head = rows.slice(1, first, dim);
      run(LayerNorm<Space>{.x = head, .weight = weight.slice(0, first, dim), .y = head, .eps = eps()});
    }
  }

  template <class Run>
  void attend(Run& run, const LayerConfig& facts, const BatchViews<Space>& batch, const Heads& q,
              const KvLayer<Space>& cache, const ConstView<1, Space>& sinks, const Rows& attended) const {
    const index heads = config_.heads, generated = batch.generated.size(), prompts = batch.size() - generated;
    // window_left counts the keys before the query, the configuration counts the query too.
    const index window_left = facts.window > 0 ? facts.window - 1 : -1;
    const float scale = static_cast<float>(config_.attn_scale), cap = static_cast<float>(config_.attn_softcap);
    if (generated > 0)
      run(PagedAttention<Space>{.q = q.slice(0, 0, generated),
                                .k = flat_cache(cache.k),
                                .v = flat_cache(cache.v),
                                .block_table = batch.generated.block_table,
                                .kv_lens = batch.generated.kv_lens,
                                .out = {attended.data, DType::f32, {generated, heads, config_.value_dim(facts)}},
                                .k_scale = cache.k_scale,
                                .v_scale = cache.v_scale,
                                .sinks = sinks,
                                .scale = scale,
                                .softcap = cap,
                                .window_left = window_left});
    if (prompts > 0) {
      const Heads part = q.slice(0, generated, prompts);
      const index stride = part.strides[0];
      run(FlashAttention<Space>{.q = {part.data,
                                      DType::f32,
                                      {1, prompts, heads, facts.head_dim},
                                      {prompts * stride, stride, part.strides[1], 1}},
                                .k = cache.k,
                                .v = cache.v,
                                .out = {attended.slice(0, generated, prompts).data,
                                        DType::f32,
                                        {1, prompts, heads, config_.value_dim(facts)}},
                                .q_indptr = batch.q_indptr,
                                .kv_lens = batch.prompts.kv_lens,
                                .block_table = batch.prompts.block_table,
                                .sinks = sinks,
                                .k_scale = cache.k_scale_rows(),
                                .v_scale = cache.v_scale_rows(),
                                .scale = scale,
                                .softcap = cap,
                                .causal = true,
                                .window_left = window_left,
                                .compute = of_prompts_});
    }
  }

  // Activations of one pass.
  template <class Tensors> Status take_room(Tensors& tensors) {
    ropes_.resize(config_.ropes.size());
    std::vector<std::pair<Rows*, index>> wanted = {{&stream_, config_.dim},
                                                   {&normed_, config_.dim},
                                                   {&branch_, config_.dim},
                                                   {&attended_, config_.heads * config_.value_dim()}};
    index widest = 0;  // row of q, k and v
    for (index i = 0; i < config_.layers; ++i)
      if (const LayerConfig layer = config_.layer(i); !config_.is_latent())
        widest = std::max(widest, (config_.heads + 2 * layer.kv_heads) * layer.head_dim);
    if (!config_.is_latent()) wanted.emplace_back(&qkv_, widest);
    for (std::size_t i = 0; i < ropes_.size(); ++i) {
      wanted.emplace_back(&ropes_[i].cos, config_.ropes[i].dim / 2);
      wanted.emplace_back(&ropes_[i].sin, config_.ropes[i].dim / 2);
    }
    for (const auto& [rows, columns] : wanted)
      if (Status status = take(tensors, DType::f32, {max_tokens_, columns}, *rows); !status.ok()) return status;
    if (config_.is_latent())
      if (Status status = latent_.take_room(config_, max_tokens_, tensors); !status.ok()) return status;
    if (Status status = inputs_.take_room(config_, max_tokens_, tensors); !status.ok()) return status;
    return feed_forward_.take_room(config_, max_tokens_, tensors);
  }

  template <class Tensors> Status take_frequencies(Tensors& tensors) {
    for (std::size_t i = 0; i < ropes_.size(); ++i) {
      auto frequencies = frequencies_of(config_.ropes[i], config_.context);
      if (!frequencies) return std::move(frequencies.error());
      frequencies_.push_back(std::move(*frequencies));
      auto there = tensors.upload(frequencies_.back().view());
      if (!there) return std::move(there.error());
      ropes_[i].inv_freq = *there;
      ropes_[i].magnitude = frequencies_.back().magnitude;
    }
    return {};
  }

  float eps() const { return static_cast<float>(config_.norm_eps); }

  ModelConfig config_;
  AttentionCompute of_prompts_ = AttentionCompute::exact_float;
  DecoderWeights<Space> weights_;
  Weights of_host_;                           // what those look at, where that is the host's memory
  std::vector<RopeFrequencies> frequencies_;  // and these, as ModelConfig::ropes
  index max_tokens_ = 0;
  Rows stream_, normed_, branch_, qkv_, attended_;
  std::vector<RopeTables> ropes_;  // as ModelConfig::ropes
  LatentAttention<Space> latent_;  // in place of qkv_
  PerLayerInputs<Space> inputs_;
  FeedForward<Space> feed_forward_;
};

}  // namespace inlay::exec
