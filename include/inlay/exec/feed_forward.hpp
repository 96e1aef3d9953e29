// What a layer has behind its attention: a feed-forward of one x, a mixture of experts of which each token meets some,
// or both (ExpertsConfig), with the buffers of one pass.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/exec/decoder_weights.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/moe_combine.hpp>
#include <inlay/ops/moe_routing.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/swiglu.hpp>

namespace inlay::exec {

// A layer's xIELU of x, or as a gate, in place.
template <class Space> Gelu<Space> learned(const Xielu& numbers, const View<2, Space>& x, const View<2, Space>& up) {
  const auto softplus = [](double v) { return v > 30 ? v : std::log1p(std::exp(v)); };
  return {.x = x,
          .up = up,
          .y = x,
          .form = GeluForm::xielu,
          .alpha_p = static_cast<float>(softplus(numbers.alpha_p)),
          .alpha_n = static_cast<float>(numbers.beta + softplus(numbers.alpha_n)),
          .beta = static_cast<float>(numbers.beta),
          .eps = static_cast<float>(numbers.eps)};
}

// y = scale * x * up, or without `up` scale * x: xIELU whose curves are 0 is a line.
template <class Space>
Gelu<Space> scaled(const View<2, Space>& x, float scale, const std::type_identity_t<View<2, Space>>& up = {}) {
  return {.x = x, .up = up, .y = x, .form = GeluForm::xielu, .beta = scale};
}

template <class Space> class FeedForward {
 public:
  using Rows = View<2, Space>;
  using Layer = typename DecoderWeights<Space>::Layer;

  // For passes of at most so many tokens, in the memory of `tensors`.
  template <class Tensors> Status take_room(const ModelConfig& config, index max_tokens, Tensors& tensors) {
    experts_ = config.experts, gated_ = config.gated, activation_ = config.activation;
    eps_ = static_cast<float>(config.norm_eps);
    index widest = std::max<index>(experts_.shared_hidden, 1);  // of one x
    for (index i = 0; i < config.layers; ++i)
      if (const LayerConfig layer = config.layer(i); !layer.sparse || experts_.beside)
        widest = std::max(widest, layer.hidden);
    Status status = take(tensors, DType::f32, {max_tokens, 2 * widest}, gate_up_);
    return status.ok() && experts_.count > 0 ? take_routes(config.dim, max_tokens, tensors) : std::move(status);
  }

  // `stream`: what x is the norm of.
  template <class Run>
  void operator()(Run& run, const Layer& w, const LayerConfig& layer, const Rows& x, const Rows& stream,
                  const Rows& y) const {
    if (layer.sparse && experts_.beside) {
      dense(run, w.gate_up, w.down, layer.hidden, x, y, layer.xielu);
      beside(run, *w.mixture, stream, y);
    } else if (layer.sparse) {
      mixture(run, *w.mixture, x, x, y);
    } else {
      dense(run, w.gate_up, w.down, layer.hidden, x, y, layer.xielu);
    }
  }

 private:
  // Where the rows of a pass go: what moe_routing writes, and what experts read and write.
  struct Routes {
    Rows logits, weights, ids, rows;
    View<1, Space> row_tokens, expert_ends;
    Rows x, gate_up, shared_gate;
    Rows normed, added, scales;  // of experts beside the feed-forward
  };

  template <class Run>
  void dense(Run& run, const std::vector<AnyLinear<Space>>& gate_up, const AnyLinear<Space>& down, index hidden,
             const Rows& x, const Rows& y, const Xielu& xielu = {}) const {
    // | gate: hidden | up: hidden | or up alone, in a buffer that is as wide as the widest layer's.
    const Rows rows = gate_up_.slice(0, 0, x.extents[0]).slice(1, 0, (gated_ ? 2 : 1) * hidden);
    run_linears(run, gate_up, x, rows);
    down(run, activated(run, rows, hidden, xielu), y);
  }
  // What goes down: it lies where the gate lay, or up where there is none.
  template <class Run> Rows activated(Run& run, const Rows& gate_up, index hidden, const Xielu& xielu = {}) const {
    const Rows first = gate_up.slice(1, 0, hidden), up = gated_ ? gate_up.slice(1, hidden, hidden) : Rows();
    switch (activation_) {
      case Activation::silu: run(Swiglu<Space>{.gate = first, .up = up, .y = first}); break;
      case Activation::gelu: activate(run, first, up, GeluForm::erf); break;
      case Activation::gelu_tanh: activate(run, first, up, GeluForm::tanh); break;
      case Activation::relu_squared: activate(run, first, up, GeluForm::relu_squared); break;
      case Activation::xielu: run(learned<Space>(xielu, first, up)); break;
      case Activation::clipped_swiglu:
        run(Swiglu<Space>{.gate = first, .up = up, .y = first, .alpha = 1.702f, .limit = 7, .up_offset = 1});
        break;
    }
    return first;
  }
  template <class Run> void activate(Run& run, const Rows& x, const Rows& up, GeluForm form) const {
    run(Gelu<Space>{.x = x, .up = up, .y = x, .form = form});
  }

  using Mixture = typename DecoderWeights<Space>::Mixture;

  template <class Run> void norm(Run& run, const Rows& x, const ConstView<1, Space>& weight, const Rows& y) const {
    run(RmsNorm<Space>{.x = x, .weight = weight, .y = y, .eps = eps_});
  }

  // The feed-forward is in y; what the experts make of the stream is added, both behind their norms.
  template <class Run> void beside(Run& run, const Mixture& w, const Rows& stream, const Rows& y) const {
    const index tokens = y.extents[0];
    const Rows added = routes_.added.slice(0, 0, tokens), normed = routes_.normed.slice(0, 0, tokens);
    norm(run, y, w.dense_post_norm, y);
    norm(run, stream, w.router_scale, added);
    norm(run, stream, w.norm, normed);
    mixture(run, w, added, normed, added);
    norm(run, added, w.post_norm, added);
    run(Add<Space>{.a = y, .b = added, .y = y});
  }

  // Rows of x are gathered by expert, go through those and are put together again; then the shared expert is added.
  // `routed`: what the router reads, y itself perhaps.
  template <class Run>
  void mixture(Run& run, const Mixture& w, const Rows& routed, const Rows& x, const Rows& y) const {
    const ExpertsConfig& e = experts_;
    const index tokens = x.extents[0], pairs = tokens * e.top_k;
    const auto of_tokens = [&](const Rows& all) { return all.slice(0, 0, tokens); };
    const Rows logits = of_tokens(routes_.logits), weights = of_tokens(routes_.weights), rows = of_tokens(routes_.rows);
    const View<1, Space> row_tokens = routes_.row_tokens.slice(0, 0, pairs);
    w.router(run, routed, logits);
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
                          .scale = static_cast<float>(e.scale),
                          .jitter = static_cast<float>(e.jitter)});
    if (w.scales.present()) scale_weights(run, w.scales, of_tokens(routes_.ids), weights);
    const Rows of_experts = routes_.x.slice(0, 0, pairs);
    run(Embedding<Space>{.table = x, .ids = row_tokens, .y = of_experts});
    const Rows gate_up = routes_.gate_up.slice(0, 0, pairs);
    const ConstView<1, Space> ends = routes_.expert_ends;
    if (gated_) w.gate(run, of_experts, gate_up.slice(1, 0, e.hidden), ends);
    w.up(run, of_experts, gate_up.slice(1, gated_ ? e.hidden : 0, e.hidden), ends);
    w.down(run, activated(run, gate_up, e.hidden), of_experts, ends);

    MoeCombine<Space> combine{.x = of_experts, .rows = rows, .weights = weights, .y = y};
    if (e.shared_hidden > 0) {
      if (e.shared_gate) {
        combine.shared_gate = of_tokens(routes_.shared_gate);
        w.shared_router(run, x, of_tokens(routes_.shared_gate));
      }
      dense(run, w.shared_gate_up, w.shared_down, e.shared_hidden, x, y);
      combine.shared = y;
    }
    run(combine);
  }

  // Each expert's weight times the expert's own scale.
  template <class Run>
  void scale_weights(Run& run, const ConstView<1, Space>& scales, const Rows& ids, const Rows& weights) const {
    const index pairs = ids.extents[0] * ids.extents[1];
    const Rows of_pairs = routes_.scales.slice(0, 0, pairs);
    run(Embedding<Space>{.table = {scales.data, scales.dtype, {scales.extents[0], 1}},
                         .ids = {ids.data, ids.dtype, {pairs}},
                         .y = of_pairs});
    run(scaled<Space>(weights, 1, {of_pairs.data, of_pairs.dtype, weights.extents}));
  }

  template <class Tensors> Status take_routes(index dim, index max_tokens, Tensors& tensors) {
    const index pairs = max_tokens * experts_.top_k;
    struct Wanted {
      Rows* rows;
      DType type;
      index count, columns;
    };
    for (const Wanted& each : {Wanted{&routes_.logits, DType::f32, max_tokens, experts_.count},
                               {&routes_.weights, DType::f32, max_tokens, experts_.top_k},
                               {&routes_.ids, DType::i32, max_tokens, experts_.top_k},
                               {&routes_.rows, DType::i32, max_tokens, experts_.top_k},
                               {&routes_.x, DType::f32, pairs, dim},
                               {&routes_.gate_up, DType::f32, pairs, 2 * experts_.hidden},
                               {&routes_.shared_gate, DType::f32, max_tokens, 1},
                               {&routes_.normed, DType::f32, experts_.beside ? max_tokens : 1, dim},
                               {&routes_.added, DType::f32, experts_.beside ? max_tokens : 1, dim},
                               {&routes_.scales, DType::f32, experts_.beside ? pairs : 1, 1}})
      if (Status status = take(tensors, each.type, {each.count, each.columns}, *each.rows); !status.ok()) return status;
    if (Status status = take(tensors, DType::i32, {pairs}, routes_.row_tokens); !status.ok()) return status;
    return take(tensors, DType::i32, {experts_.count}, routes_.expert_ends);
  }

  ExpertsConfig experts_;
  float eps_ = 0;
  bool gated_ = true;
  Activation activation_ = Activation::silu;
  Rows gate_up_;
  Routes routes_;
};

}  // namespace inlay::exec
