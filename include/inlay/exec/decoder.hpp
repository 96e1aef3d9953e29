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
#include <variant>
#include <vector>

#include <inlay/exec/batch.hpp>
#include <inlay/exec/decoder_weights.hpp>
#include <inlay/model/model_ropes.hpp>
#include <inlay/model/weights.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/layer_norm.hpp>
#include <inlay/ops/moe_combine.hpp>
#include <inlay/ops/moe_routing.hpp>
#include <inlay/ops/paged_attention.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/swiglu.hpp>

namespace inlay::exec {

template <class Space = Host> class Decoder {
 public:
  // Room for `max_tokens` in one pass, in the memory of `tensors`, which must outlive the decoder. int8 activations
  // are refused where all linears are floats, bf16 ones where none is: nothing would be rounded.
  template <class Tensors>
  static Expected<Decoder> make(ModelConfig config, Weights weights, index max_tokens, Tensors& tensors,
                                Activations activations = Activations::exact,
                                AttentionCompute attention = AttentionCompute::exact_float) {
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
    auto there = DecoderWeights<Space>::make(weights, tensors, activations);
    if (!there) return failure(std::move(there.error()));
    decoder.weights_ = std::move(*there);
    if (Status status = decoder.take_frequencies(tensors); !status.ok()) return failure(std::move(status));
    if (tensors.looks_at_host()) decoder.of_host_ = std::move(weights);
    return decoder;
  }

  const ModelConfig& config() const { return config_; }
  index max_tokens() const { return max_tokens_; }

  // The batch's keys and values go into the cache; `logits` [rows, vocab] f32 gets those of the last
  // `rows` tokens.
  template <class Run>
  void forward(Run& run, const KvPool<Space>& cache, const BatchViews<Space>& batch,
               const View<2, Space>& logits) const {
    const index tokens = batch.size();
    Residual stream{.stream = stream_.slice(0, 0, tokens), .branch = branch_.slice(0, 0, tokens)};
    const Rows normed = normed_.slice(0, 0, tokens);

    for (const RopeTables& rope : ropes_)
      run(RopeTable<Space>{.positions = batch.positions,
                           .inv_freq = rope.inv_freq,
                           .cos = rope.cos.slice(0, 0, tokens),
                           .sin = rope.sin.slice(0, 0, tokens),
                           .magnitude = rope.magnitude});
    run(Embedding<Space>{.table = weights_.embedding,
                         .row_scale = weights_.embedding_scale,
                         .ids = batch.tokens,
                         .y = stream.stream,
                         .format = weights_.embedding_format,
                         .scale = static_cast<float>(config_.embed_scale / config_.residual_scale)});
    for (index layer = 0; layer < config_.layers; ++layer) {
      const Layer& w = weights_.layers[layer];
      const Rows before = read(run, stream, w.attn_norm, normed);
      attention(run, layer, cache, batch, before, stream.branch);
      write(run, stream, w.attn_post_norm);
      const Rows behind = read(run, stream, w.ffn_norm, normed);
      if (config_.layer(layer).sparse)
        mixture(run, w.mixture, behind, stream.branch);
      else
        feed_forward(run, {w.gate_up, w.down}, config_.layer(layer).hidden, config_.parallel ? before : behind,
                     stream.branch);
      write(run, stream, w.ffn_post_norm);
    }
    const Rows last = read(run, stream, weights_.output_norm, normed);
    linear(run, weights_.head, last.slice(0, tokens - logits.extents[0], logits.extents[0]), logits);
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
  // A feed-forward of one x.
  struct FeedForward {
    const std::vector<AnyLinear<Space>>& gate_up;
    const AnyLinear<Space>& down;
  };
  // Where the rows of a pass go: what moe_routing writes, and what experts read and write.
  struct Routes {
    Rows logits, weights, ids, rows;
    View<1, Space> row_tokens, expert_ends;
    Rows x, gate_up, shared_gate;
  };
  // The residual stream, and the branch that is still to be added to it where `open`.
  struct Residual {
    Rows stream, branch;
    bool open = false;
  };

  template <class Run> void linear(Run& run, const AnyLinear<Space>& weight, const Rows& x, const Rows& y) const {
    std::visit(
        [&](auto op) {
          op.x = x;
          op.y = y;
          run(op);
        },
        weight.op);
  }
  // Linears of one x: each writes the columns of y behind those of the one before it.
  template <class Run>
  void linears(Run& run, const std::vector<AnyLinear<Space>>& weights, const Rows& x, const Rows& y) const {
    index first = 0;
    for (const AnyLinear<Space>& weight : weights) {
      linear(run, weight, x, y.slice(1, first, weight.channels));
      first += weight.channels;
    }
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

  template <class Run>
  void attention(Run& run, index layer, const KvPool<Space>& cache, const BatchViews<Space>& batch, const Rows& x,
                 const Rows& y) const {
    const Layer& w = weights_.layers[layer];
    const index tokens = batch.size(), heads = config_.heads, kv_heads = config_.kv_heads, dim = config_.head_dim;
    // | q: heads x dim | k: kv_heads x dim | v: kv_heads x dim |
    const Rows rows = qkv_.slice(0, 0, tokens);
    const Rows q = rows.slice(1, 0, heads * dim), k = rows.slice(1, heads * dim, kv_heads * dim);
    const Rows v = rows.slice(1, (heads + kv_heads) * dim, kv_heads * dim);
    const auto by_head = [&](const Rows& part, index count) {
      return View<3, Space>(part.data, DType::f32, {tokens, count, dim}, {rows.strides[0], dim, 1});
    };
    const View<3, Space> q_heads = by_head(q, heads), k_heads = by_head(k, kv_heads), v_heads = by_head(v, kv_heads);
    linears(run, w.qkv, x, rows);
    const auto qk_norm = [&] {
      const bool row = config_.qk_norm == QkNorm::row;
      run(RmsNorm<Space>{.x = q, .weight = w.q_norm, .y = q, .heads = row ? 1 : heads, .eps = eps()});
      run(RmsNorm<Space>{.x = k, .weight = w.k_norm, .y = k, .heads = row ? 1 : kv_heads, .eps = eps()});
    };
    if (config_.qk_norm == QkNorm::head || config_.qk_norm == QkNorm::row) qk_norm();
    const LayerConfig facts = config_.layer(layer);
    if (facts.rope != LayerConfig::no_rope) {
      const RopeTables& tables = ropes_[static_cast<std::size_t>(facts.rope)];
      const Rows cos = tables.cos.slice(0, 0, tokens), sin = tables.sin.slice(0, 0, tokens);
      const bool interleaved =
          config_.ropes[static_cast<std::size_t>(facts.rope)].pairing == RopeConfig::Pairing::interleaved;
      run(Rope<Space>{.x = q_heads, .cos = cos, .sin = sin, .y = q_heads, .interleaved = interleaved});
      run(Rope<Space>{.x = k_heads, .cos = cos, .sin = sin, .y = k_heads, .interleaved = interleaved});
    }
    if (config_.qk_norm == QkNorm::head_behind_rope) qk_norm();

    const View<4, Space> keys = cache.keys(layer), values = cache.values(layer);
    run(ReshapeAndCache<Space>{.k = k_heads,
                               .v = v_heads,
                               .k_cache = flat_cache(keys),
                               .v_cache = flat_cache(values),
                               .slot_mapping = batch.slots});
    const Rows attended = attended_.slice(0, 0, tokens);
    // window_left counts the keys before the query, the configuration counts the query too.
    const index window_left = facts.window > 0 ? facts.window - 1 : -1;
    const float scale = static_cast<float>(config_.attn_scale), cap = static_cast<float>(config_.attn_softcap);
    if (batch.phase == Phase::decode) {
      run(PagedAttention<Space>{.q = q_heads,
                                .k = flat_cache(keys),
                                .v = flat_cache(values),
                                .block_table = batch.block_table,
                                .kv_lens = batch.kv_lens,
                                .out = {attended.data, DType::f32, {tokens, heads, dim}},
                                .sinks = w.sinks,
                                .scale = scale,
                                .softcap = cap,
                                .window_left = window_left});
    } else {
      run(FlashAttention<Space>{
          .q = {q.data, DType::f32, {1, tokens, heads, dim}, {tokens * rows.strides[0], rows.strides[0], dim, 1}},
          .k = keys,
          .v = values,
          .out = {attended.data, DType::f32, {1, tokens, heads, dim}},
          .q_indptr = batch.q_indptr,
          .kv_lens = batch.kv_lens,
          .block_table = batch.block_table,
          .sinks = w.sinks,
          .scale = scale,
          .softcap = cap,
          .causal = true,
          .window_left = window_left,
          .compute = of_prompts_});
    }
    linear(run, w.output, attended, y);
  }

  template <class Run>
  void feed_forward(Run& run, const FeedForward& w, index hidden, const Rows& x, const Rows& y) const {
    // | gate: hidden | up: hidden | or up alone, in a buffer that is as wide as the widest layer's.
    const Rows rows = gate_up_.slice(0, 0, x.extents[0]).slice(1, 0, (config_.gated ? 2 : 1) * hidden);
    linears(run, w.gate_up, x, rows);
    linear(run, w.down, activated(run, rows, hidden), y);
  }
  // What goes down: it lies where the gate lay, or up where there is none.
  template <class Run> Rows activated(Run& run, const Rows& gate_up, index hidden) const {
    const Rows first = gate_up.slice(1, 0, hidden), up = config_.gated ? gate_up.slice(1, hidden, hidden) : Rows();
    switch (config_.activation) {
      case Activation::silu: run(Swiglu<Space>{.gate = first, .up = up, .y = first}); break;
      case Activation::gelu: activate(run, first, up, GeluForm::erf); break;
      case Activation::gelu_tanh: activate(run, first, up, GeluForm::tanh); break;
      case Activation::relu_squared: activate(run, first, up, GeluForm::relu_squared); break;
      case Activation::clipped_swiglu:
        run(Swiglu<Space>{.gate = first, .up = up, .y = first, .alpha = 1.702f, .limit = 7, .up_offset = 1});
        break;
    }
    return first;
  }
  template <class Run> void activate(Run& run, const Rows& x, const Rows& up, GeluForm form) const {
    run(Gelu<Space>{.x = x, .up = up, .y = x, .form = form});
  }

  // Rows of x are gathered by expert, go through those and are put together again; then the shared expert is added.
  template <class Run>
  void mixture(Run& run, const typename DecoderWeights<Space>::Mixture& w, const Rows& x, const Rows& y) const {
    const ExpertsConfig& e = config_.experts;
    const index tokens = x.extents[0], pairs = tokens * e.top_k;
    const auto of_tokens = [&](const Rows& all) { return all.slice(0, 0, tokens); };
    const Rows logits = of_tokens(routes_.logits), weights = of_tokens(routes_.weights), rows = of_tokens(routes_.rows);
    const View<1, Space> row_tokens = routes_.row_tokens.slice(0, 0, pairs);
    linear(run, w.router, x, logits);
    run(MoeRouting<Space>{.logits = logits,
                          .bias = w.choice_bias,
                          .weights = weights,
                          .ids = of_tokens(routes_.ids),
                          .rows = rows,
                          .row_tokens = row_tokens,
                          .expert_ends = routes_.expert_ends,
                          .score = e.score,
                          .groups = e.groups,
                          .groups_kept = e.groups_kept,
                          .group_score = e.group_score,
                          .renormalize = e.renormalize,
                          .scale = static_cast<float>(e.scale)});
    const Rows of_experts = routes_.x.slice(0, 0, pairs);
    run(Embedding<Space>{.table = x, .ids = row_tokens, .y = of_experts});
    const Rows gate_up = routes_.gate_up.slice(0, 0, pairs);
    if (config_.gated) experts(run, w.gate, of_experts, gate_up.slice(1, 0, e.hidden));
    experts(run, w.up, of_experts, gate_up.slice(1, config_.gated ? e.hidden : 0, e.hidden));
    experts(run, w.down, activated(run, gate_up, e.hidden), of_experts);

    MoeCombine<Space> combine{.x = of_experts, .rows = rows, .weights = weights, .y = y};
    if (e.shared_hidden > 0) {
      if (e.shared_gate) {
        combine.shared_gate = of_tokens(routes_.shared_gate);
        linear(run, w.shared_router, x, of_tokens(routes_.shared_gate));
      }
      feed_forward(run, {w.shared_gate_up, w.shared_down}, e.shared_hidden, x, y);
      combine.shared = y;
    }
    run(combine);
  }
  template <class Run> void experts(Run& run, const AnyLinear<Space>& weight, const Rows& x, const Rows& y) const {
    std::visit(
        [&](auto op) {
          op.x = x;
          op.y = y;
          op.expert_ends = routes_.expert_ends;
          run(op);
        },
        weight.op);
  }

  // The widest feed-forward of one x, of shared experts too.
  index widest() const {
    index most = std::max<index>(config_.experts.shared_hidden, 1);
    for (index i = 0; i < config_.layers; ++i)
      if (const LayerConfig layer = config_.layer(i); !layer.sparse) most = std::max(most, layer.hidden);
    return most;
  }

  // Activations of one pass.
  template <class Tensors> Status take_room(Tensors& tensors) {
    const index qkv = (config_.heads + 2 * config_.kv_heads) * config_.head_dim;
    ropes_.resize(config_.ropes.size());
    std::vector<std::pair<Rows*, index>> wanted = {
        {&stream_, config_.dim},   {&normed_, config_.dim},
        {&branch_, config_.dim},   {&qkv_, qkv},
        {&gate_up_, 2 * widest()}, {&attended_, config_.heads * config_.head_dim}};
    for (std::size_t i = 0; i < ropes_.size(); ++i) {
      wanted.emplace_back(&ropes_[i].cos, config_.ropes[i].dim / 2);
      wanted.emplace_back(&ropes_[i].sin, config_.ropes[i].dim / 2);
    }
    for (const auto& [rows, columns] : wanted) {
      auto made = tensors.template make<2>(DType::f32, {max_tokens_, columns});
      if (!made) return std::move(made.error());
      *rows = *made;
    }
    return config_.experts.count > 0 ? take_routes(tensors) : Status();
  }
  template <class Tensors> Status take_routes(Tensors& tensors) {
    const ExpertsConfig& e = config_.experts;
    const index pairs = max_tokens_ * e.top_k;
    struct Wanted {
      Rows* rows;
      DType type;
      index count, columns;
    };
    for (const Wanted& each : {Wanted{&routes_.logits, DType::f32, max_tokens_, e.count},
                               {&routes_.weights, DType::f32, max_tokens_, e.top_k},
                               {&routes_.ids, DType::i32, max_tokens_, e.top_k},
                               {&routes_.rows, DType::i32, max_tokens_, e.top_k},
                               {&routes_.x, DType::f32, pairs, config_.dim},
                               {&routes_.gate_up, DType::f32, pairs, 2 * e.hidden},
                               {&routes_.shared_gate, DType::f32, max_tokens_, 1}}) {
      auto made = tensors.template make<2>(each.type, {each.count, each.columns});
      if (!made) return std::move(made.error());
      *each.rows = *made;
    }
    for (const auto& [list, count] : {std::pair{&routes_.row_tokens, pairs}, {&routes_.expert_ends, e.count}}) {
      auto made = tensors.template make<1>(DType::i32, {count});
      if (!made) return std::move(made.error());
      *list = *made;
    }
    return {};
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
  Rows stream_, normed_, branch_, qkv_, attended_, gate_up_;
  std::vector<RopeTables> ropes_;  // as ModelConfig::ropes
  Routes routes_;
};

}  // namespace inlay::exec
