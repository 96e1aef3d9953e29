#include <algorithm>
#include <cmath>
#include <utility>

#include <inlay/model/fused_linears.hpp>

#include "executor/model/weight_source.hpp"

namespace inlay::exec {

namespace {

LinearWeight* linear_of(LayerWeights& layer, Part part) {
  switch (part) {
    case Part::q: return &layer.qkv[0];
    case Part::q_a: return &layer.qkv[0];
    case Part::kv_a: return &layer.qkv[1];
    case Part::q_b: return &layer.latent.q_b;
    case Part::kv_b: return &layer.latent.kv_b;
    case Part::k: return &layer.qkv[1];
    case Part::v: return &layer.qkv[2];
    case Part::output: return &layer.output;
    case Part::gate: return &layer.gate_up.front();
    case Part::up: return &layer.gate_up.back();
    case Part::down: return &layer.down;
    case Part::router: return &layer.mixture.router;
    case Part::expert_gate: return &layer.mixture.gate;
    case Part::expert_up: return &layer.mixture.up;
    case Part::expert_down: return &layer.mixture.down;
    case Part::shared_gate: return &layer.mixture.shared_gate_up.front();
    case Part::shared_up: return &layer.mixture.shared_gate_up.back();
    case Part::shared_down: return &layer.mixture.shared_down;
    case Part::input_gate: return &layer.input.gate;
    case Part::input_projection: return &layer.input.projection;
    default: return nullptr;
  }
}

ConstView<1>* vector_of(LayerWeights& layer, Part part) {
  switch (part) {
    case Part::attn_norm: return &layer.attn_norm;
    case Part::attn_norm_bias: return &layer.attn_norm_bias;
    case Part::attn_post_norm: return &layer.attn_post_norm;
    case Part::ffn_post_norm: return &layer.ffn_post_norm;
    case Part::ffn_norm: return &layer.ffn_norm;
    case Part::ffn_norm_bias: return &layer.ffn_norm_bias;
    case Part::q_norm: return &layer.q_norm;
    case Part::k_norm: return &layer.k_norm;
    case Part::q_a_norm: return &layer.latent.q_norm;
    case Part::kv_a_norm: return &layer.latent.kv_norm;
    case Part::q_bias: return &layer.qkv[0].bias;
    case Part::k_bias: return &layer.qkv[1].bias;
    case Part::v_bias: return &layer.qkv[2].bias;
    case Part::output_bias: return &layer.output.bias;
    case Part::gate_bias: return &layer.gate_up.front().bias;
    case Part::up_bias: return &layer.gate_up.back().bias;
    case Part::down_bias: return &layer.down.bias;
    case Part::sinks: return &layer.sinks;
    case Part::router_bias: return &layer.mixture.router.bias;
    case Part::expert_gate_bias: return &layer.mixture.gate.bias;
    case Part::expert_up_bias: return &layer.mixture.up.bias;
    case Part::expert_down_bias: return &layer.mixture.down.bias;
    case Part::choice_bias: return &layer.mixture.choice_bias;
    case Part::shared_gate_bias: return &layer.mixture.shared_gate_up.front().bias;
    case Part::shared_up_bias: return &layer.mixture.shared_gate_up.back().bias;
    case Part::shared_down_bias: return &layer.mixture.shared_down.bias;
    case Part::shared_router: return &layer.mixture.shared_router;
    case Part::router_scale: return &layer.mixture.router_scale;
    case Part::expert_scales: return &layer.mixture.scales;
    case Part::expert_norm: return &layer.mixture.norm;
    case Part::dense_post_norm: return &layer.mixture.dense_post_norm;
    case Part::expert_post_norm: return &layer.mixture.post_norm;
    case Part::input_post_norm: return &layer.input.post_norm;
    default: return nullptr;
  }
}

class Filling {
 public:
  Filling(WeightSource& source, const ModelConfig& config, const RankCut& cut, Weights& weights)
      : source_(source), config_(config), cut_(cut), weights_(weights) {}

  Status put(const TensorFacts& tensor) {
    switch (tensor.part) {
      case Part::head: return put(tensor, weights_.head);
      case Part::embedding:
        if (config_.tie_embeddings) {
          TensorFacts head = tensor;  // the same numbers, which a rank has rows of
          head.part = Part::head;
          if (Status status = put(head, weights_.head); !status) return status;
        }
        return put(tensor, weights_.embedding);
      case Part::layer_inputs_embedding: return put(tensor, weights_.layer_inputs);
      case Part::layer_inputs_projection: return put(tensor, weights_.layer_inputs_projection);
      case Part::layer_inputs_norm: return put_scaled(tensor, std::sqrt(0.5), weights_.layer_inputs_norm);
      case Part::rope_factors:
      case Part::rope_short:
      case Part::rope_long: return {};  // the configuration has them
      case Part::head_bias: return put(tensor, weights_.head.bias);
      // The head is linear: what scales the logits may as well scale its x.
      case Part::output_norm: return put_scaled(tensor, config_.logit_scale, weights_.output_norm);
      case Part::output_norm_bias: return put_scaled(tensor, config_.logit_scale, weights_.output_norm_bias);
      default: break;
    }
    LayerWeights& layer = weights_.layers[static_cast<std::size_t>(tensor.layer)];
    if (tensor.part == Part::layer_scale) return put(tensor, layer.scale);
    if (tensor.part == Part::router_scale)
      return put_scaled(tensor, 1 / std::sqrt(static_cast<double>(config_.dim)), layer.mixture.router_scale);
    if (LinearWeight* linear = linear_of(layer, tensor.part)) return put(tensor, *linear);
    return put(tensor, *vector_of(layer, tensor.part));
  }

  // All tensors of the layer are there. Its linears are joined now, so that no more than one layer's stand in memory
  // twice.
  Status finish(LayerWeights& layer) {
    MixtureWeights& mixture = layer.mixture;
    for (FusedLinears* linears : {&layer.qkv, &layer.gate_up, &mixture.shared_gate_up}) {
      auto made = joined(std::move(*linears), weights_.vectors);
      if (!made) return std::move(made.error());
      *linears = std::move(*made);
      for (const LinearWeight& linear : *linears) weights_.linear_bytes += linear.bytes();
    }
    for (const LinearWeight* linear :
         {&layer.output, &layer.down, &layer.latent.q_b, &layer.latent.kv_b, &mixture.router, &mixture.shared_down,
          &layer.input.gate, &layer.input.projection})
      weights_.linear_bytes += linear->bytes();
    // A token has top_k of them.
    for (const LinearWeight* linear : {&mixture.gate, &mixture.up, &mixture.down})
      weights_.linear_bytes += linear->bytes() / static_cast<std::size_t>(linear->experts()) *
                               static_cast<std::size_t>(config_.experts.top_k);
    return {};
  }

 private:
  Status put_scaled(const TensorFacts& tensor, double scale, ConstView<1>& place) {
    Status status = put(tensor, place);
    if (!status || scale == 1) return status;
    auto scaled = OwnedTensor<1>::make(DType::f32, place.extents);
    if (!scaled) return std::move(scaled.error());
    for (index i = 0; i < tensor.extents[0]; ++i)
      scaled->view().as<float>()[i] = static_cast<float>(scale * static_cast<double>(place.as<float>()[i]));
    weights_.vectors.push_back(std::move(*scaled));
    place = weights_.vectors.back();
    return {};
  }
  Status put(const TensorFacts& tensor, LinearWeight& place) {
    auto made = source_.linear(tensor);
    if (made) made = cut_.own(tensor, std::move(*made));
    if (!made) return std::move(made.error());
    if (tensor.layer < 0) weights_.linear_bytes += made->bytes();
    place = std::move(*made);
    return {};
  }
  Status put(const TensorFacts& tensor, ConstView<1>& place) {
    auto made = source_.vector(tensor, weights_);
    if (!made) return std::move(made.error());
    place = cut_.own(tensor, *made);
    return {};
  }

  Status put(const TensorFacts& tensor, EmbeddingTable& place) {
    auto made = source_.embedding(tensor, weights_);
    if (!made) return std::move(made.error());
    place = *made;
    return {};
  }
  Status put(const TensorFacts& tensor, float& place) {
    ConstView<1> one;
    Status status = put(tensor, one);
    if (status) place = one.as<float>()[0];
    return status;
  }

  WeightSource& source_;
  const ModelConfig& config_;
  const RankCut& cut_;
  Weights& weights_;
};

// Norms that have no weights multiply by these.
Status take_ones(const ModelConfig& c, Weights& weights) {
  if (c.norm_weights && !c.embed_norm && !c.v_norm) return {};
  auto ones = OwnedTensor<1>::make(DType::f32, {std::max(c.dim, c.head_dim)});
  if (!ones) return std::move(ones.error());
  std::fill_n(ones->view().as<float>(), ones->view().size(), 1.0f);
  weights.vectors.push_back(std::move(*ones));
  weights.ones = weights.vectors.back();
  if (c.norm_weights) return {};
  const ConstView<1> of_stream = weights.ones.slice(0, 0, c.dim), of_head = weights.ones.slice(0, 0, c.head_dim);
  weights.output_norm = of_stream;
  for (LayerWeights& layer : weights.layers) {
    if (c.norms.before_attn) layer.attn_norm = of_stream;
    if (c.norms.before_ffn) layer.ffn_norm = of_stream;
    if (c.qk_norm != QkNorm::none) layer.q_norm = layer.k_norm = of_head;
  }
  return {};
}

}  // namespace

Expected<Weights> weights_from(WeightSource& source, const ModelConfig& config,
                               const std::function<void(index, index)>& progress, const RankCut& cut) {
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(config.layers));
  for (index i = 0; i < config.layers; ++i) {
    LayerWeights& layer = weights.layers[static_cast<std::size_t>(i)];
    const LayerConfig facts = config.layer(i);
    const bool has_kv = facts.kv_layer == LayerConfig::own_kv;
    layer.qkv.resize(config.is_latent() ? 2 : !has_kv ? 1 : facts.v_is_k ? 2 : 3);
    const std::size_t linears = config.gated ? 2 : 1;
    if (!facts.sparse || config.experts.beside) layer.gate_up.resize(linears);
    if (facts.sparse && config.experts.shared_hidden > 0) layer.mixture.shared_gate_up.resize(linears);
  }
  Filling filling(source, config, cut, weights);
  index open = -1;  // the layer whose tensors come
  const auto close = [&]() -> Status {
    if (open < 0) return {};
    Status status = filling.finish(weights.layers[static_cast<std::size_t>(open)]);
    if (status) progress(open + 1, config.layers);
    return status;
  };
  Status status = for_each_tensor(config, [&](const TensorFacts& tensor) -> Status {
    if (tensor.layer != open) {
      if (Status status = close(); !status) return status;
      open = tensor.layer;
    }
    return filling.put(tensor);
  });
  if (status) status = take_ones(config, weights);
  if (!status) return failure(std::move(status));
  return weights;
}

}  // namespace inlay::exec
