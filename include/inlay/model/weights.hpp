// The weights of a decoder model, packed for the operators. Norms, biases and the embedding table are
// used where the file has them; linears are packed and their pages in the file given back.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <inlay/model/linear_weight.hpp>
#include <inlay/weights/rope_frequencies.hpp>

namespace inlay::exec {

struct LayerWeights {
  ConstView<1> attn_norm, ffn_norm;       // [dim]
  ConstView<1> q_norm = {}, k_norm = {};  // [head_dim]; Qwen3
  LinearWeight q, k, v, output;           // biases inside; Qwen2
  LinearWeight gate, up, down;
};

struct Weights {
  ConstView<2> embedding;             // [vocab, dim], or rows of blocks with `format`
  ConstView<1> embedding_scale = {};  // [vocab] of an int8 table
  GgmlType embedding_format = GgmlType::F32;
  std::vector<LayerWeights> layers;
  ConstView<1> output_norm;  // [dim]
  LinearWeight head;         // [vocab, dim]
  RopeFrequencies rope;
  std::size_t linear_bytes = 0;  // what one token reads of the linears

  // Vectors that had to be widened to f32, and what keeps the file mapped.
  std::vector<OwnedTensor<1>> vectors;
  std::vector<OwnedTensor<2>> tables;
  std::shared_ptr<const ModelFile> file;

  bool all_linears_are_float() const {
    return head.is_float() && std::all_of(layers.begin(), layers.end(), [](const LayerWeights& w) {
             const LinearWeight* all[] = {&w.q, &w.k, &w.v, &w.output, &w.gate, &w.up, &w.down};
             return std::all_of(std::begin(all), std::end(all), [](const auto* each) { return each->is_float(); });
           });
  }
};

namespace detail {

inline Expected<RopeFrequencies> frequencies(const RopeConfig& rope) {
  RopeParameters parameters{.rotary_dim = rope.dim, .theta = rope.theta};
  parameters.factor = rope.factor;
  parameters.original_context = static_cast<double>(rope.original_context);
  parameters.low_freq_factor = rope.low_freq_factor;
  parameters.high_freq_factor = rope.high_freq_factor;
  parameters.beta_fast = rope.beta_fast;
  parameters.beta_slow = rope.beta_slow;
  switch (rope.scaling) {
    case RopeConfig::Scaling::none: break;
    case RopeConfig::Scaling::linear: parameters.scaling = RopeScaling::linear; break;
    case RopeConfig::Scaling::yarn:
      parameters.scaling = RopeScaling::yarn;
      parameters.attention_factor = rope.attention_factor;
      break;
    case RopeConfig::Scaling::llama3:
    case RopeConfig::Scaling::freq_factors: parameters.divisors = rope.freq_factors; break;
  }
  return rope_frequencies(parameters);
}

// Finds and prepares tensors of one file; the first failure stays.
class WeightReader {
 public:
  WeightReader(const ModelFile& file, Weights& weights, const Parallel& parallel)
      : file_(file), weights_(weights), parallel_(parallel) {}

  const WeightTensor* find(const std::string& name, bool required) {
    const WeightTensor* tensor = file_.find(name);
    if (tensor == nullptr && required) fail({StatusCode::corrupt_data, "the tensor " + name + " is missing"});
    return tensor;
  }

  // As f32: norms multiply f32 activations.
  ConstView<1> vector(const std::string& name, bool required = true) {
    const WeightTensor* tensor = status.ok() ? find(name, required) : nullptr;
    if (tensor == nullptr) return {};
    if (tensor->type == GgmlType::F32) return tensor->vector();
    auto widened = OwnedTensor<1>::make(DType::f32, {tensor->extents[0]});
    if (!widened) return fail(std::move(widened.error())), ConstView<1>();
    if (!dequantize_row(tensor->type, tensor->data, tensor->extents[0], widened->view().as<float>()))
      return fail({StatusCode::corrupt_data, name + " has a type that a vector cannot have"}), ConstView<1>();
    weights_.vectors.push_back(std::move(*widened));
    return weights_.vectors.back();
  }

  LinearWeight linear(const std::string& stem) {
    const WeightTensor* tensor = status.ok() ? find(stem + ".weight", true) : nullptr;
    if (tensor == nullptr) return {};
    auto weight = pack_weight(parallel_, file_, *tensor);
    if (!weight) return fail(std::move(weight.error())), LinearWeight();
    weights_.linear_bytes += weight->bytes();
    weight->bias = vector(stem + ".bias", false);
    return std::move(*weight);
  }

  void embedding() {
    const WeightTensor* tensor = find("token_embd.weight", true);
    if (tensor == nullptr) return;
    weights_.embedding_format = tensor->type;
    if (is_quantized(tensor->type)) {
      weights_.embedding = {
          tensor->data, DType::u8, {tensor->extents[0], ggml_row_bytes(tensor->type, tensor->extents[1])}};
      return;
    }
    weights_.embedding = tensor->matrix();
    if (tensor->type != GgmlType::I8) return;
    const WeightTensor* scale = file_.scales_of(*tensor);
    if (scale == nullptr) return fail({StatusCode::corrupt_data, "token_embd.weight is I8 and has no scales"});
    weights_.embedding_scale = scale->vector();
  }

  Status status;

 private:
  void fail(Status why) {
    if (status.ok()) status = std::move(why);
  }
  const ModelFile& file_;
  Weights& weights_;
  Parallel parallel_;
};

}  // namespace detail

// `progress(done, layers)` is called after each layer.
template <class Progress>
Expected<Weights> load_weights(std::shared_ptr<const ModelFile> file, const Parallel& parallel, Progress&& progress) {
  const ModelConfig& config = file->config;
  Weights weights;
  detail::WeightReader read(*file, weights, parallel);
  auto rope = detail::frequencies(config.rope);
  if (!rope) return failure(std::move(rope.error()));
  weights.rope = std::move(*rope);
  // The largest tensor first: its pages and its packed copy stand in memory before all others.
  weights.head = read.linear(config.tie_embeddings ? "token_embd" : "output");
  read.embedding();
  for (index layer = 0; layer < config.layers && read.status.ok(); ++layer) {
    const std::string stem = "blk." + std::to_string(layer) + ".";
    LayerWeights w;
    w.attn_norm = read.vector(stem + "attn_norm.weight");
    w.ffn_norm = read.vector(stem + "ffn_norm.weight");
    if (config.qk_norm) {
      w.q_norm = read.vector(stem + "attn_q_norm.weight");
      w.k_norm = read.vector(stem + "attn_k_norm.weight");
    }
    w.q = read.linear(stem + "attn_q");
    w.k = read.linear(stem + "attn_k");
    w.v = read.linear(stem + "attn_v");
    w.output = read.linear(stem + "attn_output");
    w.gate = read.linear(stem + "ffn_gate");
    w.up = read.linear(stem + "ffn_up");
    w.down = read.linear(stem + "ffn_down");
    weights.layers.push_back(std::move(w));
    progress(layer + 1, config.layers);
  }
  weights.output_norm = read.vector("output_norm.weight");
  if (!read.status.ok()) return failure(std::move(read.status));
  weights.file = std::move(file);
  return weights;
}

}  // namespace inlay::exec
