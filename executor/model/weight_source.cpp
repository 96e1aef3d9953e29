#include <utility>

#include <inlay/model/fused_linears.hpp>

#include "executor/model/weight_source.hpp"

namespace inlay::exec {

namespace {

Expected<RopeFrequencies> frequencies(const RopeConfig& rope, double theta) {
  RopeParameters parameters{.rotary_dim = rope.dim, .theta = theta};
  parameters.factor = rope.factor;
  parameters.original_context = static_cast<double>(rope.original_context);
  parameters.low_freq_factor = rope.low_freq_factor;
  parameters.high_freq_factor = rope.high_freq_factor;
  parameters.beta_fast = rope.beta_fast;
  parameters.beta_slow = rope.beta_slow;
  parameters.truncate = rope.truncate;
  parameters.attention_factor = rope.attention_factor;
  switch (rope.scaling) {
    case RopeConfig::Scaling::none: break;
    case RopeConfig::Scaling::linear: parameters.scaling = RopeScaling::linear; break;
    case RopeConfig::Scaling::yarn: parameters.scaling = RopeScaling::yarn; break;
    case RopeConfig::Scaling::llama3:
    case RopeConfig::Scaling::freq_factors: parameters.divisors = rope.freq_factors; break;
  }
  return rope_frequencies(parameters);
}

// One table of frequencies for each theta, however many layers share it.
Status set_ropes(const ModelConfig& config, Weights& weights) {
  std::vector<double> thetas;
  for (index i = 0; i < config.layers; ++i) {
    const double theta = config.layer(i).rope_theta;
    const auto at = std::find(thetas.begin(), thetas.end(), theta);
    weights.layers[static_cast<std::size_t>(i)].rope = static_cast<std::size_t>(at - thetas.begin());
    if (at != thetas.end()) continue;
    auto rope = frequencies(config.rope, theta);
    if (!rope) return std::move(rope.error());
    thetas.push_back(theta);
    weights.ropes.push_back(std::move(*rope));
  }
  return {};
}

LinearWeight* linear_of(LayerWeights& layer, Part part) {
  switch (part) {
    case Part::q: return &layer.qkv[0];
    case Part::k: return &layer.qkv[1];
    case Part::v: return &layer.qkv[2];
    case Part::output: return &layer.output;
    case Part::gate: return &layer.gate_up[0];
    case Part::up: return &layer.gate_up[1];
    case Part::down: return &layer.down;
    default: return nullptr;
  }
}

ConstView<1>* vector_of(LayerWeights& layer, Part part) {
  switch (part) {
    case Part::attn_norm: return &layer.attn_norm;
    case Part::ffn_norm: return &layer.ffn_norm;
    case Part::q_norm: return &layer.q_norm;
    case Part::k_norm: return &layer.k_norm;
    case Part::q_bias: return &layer.qkv[0].bias;
    case Part::k_bias: return &layer.qkv[1].bias;
    case Part::v_bias: return &layer.qkv[2].bias;
    case Part::output_bias: return &layer.output.bias;
    default: return nullptr;
  }
}

class Filling {
 public:
  Filling(WeightSource& source, const ModelConfig& config, Weights& weights)
      : source_(source), config_(config), weights_(weights) {}

  Status put(const TensorFacts& tensor) {
    switch (tensor.part) {
      case Part::head: return put(tensor, weights_.head);
      case Part::embedding:
        if (config_.tie_embeddings)
          if (Status status = put(tensor, weights_.head); !status) return status;
        return source_.embedding(tensor, weights_);
      case Part::rope_factors: return {};  // the configuration has them
      case Part::output_norm: return put(tensor, weights_.output_norm);
      default: break;
    }
    LayerWeights& layer = weights_.layers[static_cast<std::size_t>(tensor.layer)];
    if (LinearWeight* linear = linear_of(layer, tensor.part)) return put(tensor, *linear);
    return put(tensor, *vector_of(layer, tensor.part));
  }

  // All tensors of the layer are there. Its linears are joined now, so that no more than one layer's stand in memory
  // twice.
  Status finish(LayerWeights& layer) {
    for (FusedLinears* linears : {&layer.qkv, &layer.gate_up}) {
      auto made = joined(std::move(*linears), weights_.vectors);
      if (!made) return std::move(made.error());
      *linears = std::move(*made);
      for (const LinearWeight& linear : *linears) weights_.linear_bytes += linear.bytes();
    }
    weights_.linear_bytes += layer.output.bytes() + layer.down.bytes();
    return {};
  }

 private:
  Status put(const TensorFacts& tensor, LinearWeight& place) {
    auto made = source_.linear(tensor);
    if (!made) return std::move(made.error());
    if (tensor.layer < 0) weights_.linear_bytes += made->bytes();
    place = std::move(*made);
    return {};
  }
  Status put(const TensorFacts& tensor, ConstView<1>& place) {
    auto made = source_.vector(tensor, weights_);
    if (!made) return std::move(made.error());
    place = *made;
    return {};
  }

  WeightSource& source_;
  const ModelConfig& config_;
  Weights& weights_;
};

}  // namespace

Expected<Weights> weights_from(WeightSource& source, const ModelConfig& config,
                               const std::function<void(index, index)>& progress) {
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(config.layers));
  for (LayerWeights& layer : weights.layers) layer.qkv.resize(3), layer.gate_up.resize(2);
  if (Status status = set_ropes(config, weights); !status) return failure(std::move(status));
  Filling filling(source, config, weights);
  Status status = for_each_tensor(config, [&](const TensorFacts& tensor) {
    Status status = filling.put(tensor);
    if (!status || tensor.part != Part::down) return status;  // the layer's last
    status = filling.finish(weights.layers[static_cast<std::size_t>(tensor.layer)]);
    if (status) progress(tensor.layer + 1, config.layers);
    return status;
  });
  if (!status) return failure(std::move(status));
  return weights;
}

}  // namespace inlay::exec
