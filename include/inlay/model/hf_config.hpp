// config.json of a Hugging Face checkpoint.
#pragma once

#include <cmath>
#include <numbers>
#include <string>

#include <inlay/model/check_model.hpp>
#include <inlay/model/json_file.hpp>

namespace inlay::exec {

// Llama 3.1: long wavelengths are slowed down by `factor`, short ones kept, those between blended.
inline std::vector<float> llama3_freq_factors(const RopeConfig& rope) {
  std::vector<float> factors;
  const auto original = static_cast<double>(rope.original_context);
  for (index i = 0; i < rope.dim / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(rope.theta, 2 * static_cast<double>(i) / static_cast<double>(rope.dim));
    const double turns = original / wavelength;  // within the original context
    double factor = 1;
    if (turns < rope.low_freq_factor) {
      factor = rope.factor;
    } else if (turns <= rope.high_freq_factor) {
      const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      factor = 1 / ((1 - smooth) / rope.factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

namespace detail {

inline Status read_hf_rope(const Json& config, const std::string& origin, ModelConfig& c) {
  RopeConfig& rope = c.rope;
  rope.pairing = RopeConfig::Pairing::half;
  JsonFields top(config, origin);
  top.number("rope_theta", rope.theta);
  double partial = 1;
  top.number("partial_rotary_factor", partial);
  if (!(partial > 0 && partial <= 1)) top.fail(StatusCode::corrupt_data, "partial_rotary_factor must be in (0, 1]");
  if (top.ok()) rope.dim = static_cast<index>(static_cast<double>(c.head_dim) * partial);
  if (Status status = top.take_status(); !status) return status;
  const Json* scaling = find(config, "rope_parameters");  // newer files; rope_scaling before
  if (!scaling) scaling = find(config, "rope_scaling");
  if (!scaling) return {};
  if (!scaling->is_object()) return {StatusCode::corrupt_data, origin + ": the key 'rope_scaling' is no object"};
  JsonFields fields(*scaling, origin);
  fields.number("rope_theta", rope.theta);
  std::string type = "default";
  if (!fields.text("rope_type", type)) fields.text("type", type);
  fields.number("factor", rope.factor);
  rope.original_context = c.context;
  fields.integer("original_max_position_embeddings", rope.original_context);
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::linear;
  } else if (type == "llama3") {
    rope.scaling = RopeConfig::Scaling::llama3;
    fields.number("low_freq_factor", rope.low_freq_factor);
    fields.number("high_freq_factor", rope.high_freq_factor);
    if (!(rope.low_freq_factor < rope.high_freq_factor))
      fields.fail(StatusCode::corrupt_data, "low_freq_factor must be below high_freq_factor");
    if (fields.ok()) rope.freq_factors = llama3_freq_factors(rope);
  } else if (type == "yarn") {
    rope.scaling = RopeConfig::Scaling::yarn;
    fields.number("beta_fast", rope.beta_fast);
    fields.number("beta_slow", rope.beta_slow);
    rope.attention_factor = rope.factor > 1 ? 0.1 * std::log(rope.factor) + 1 : 1;
    fields.number("attention_factor", rope.attention_factor);
  } else if (type == "default" || type == "dynamic") {
    rope.factor = 1;  // dynamic scaling sets in beyond the context length, which is as far as we go
  } else {
    fields.fail(StatusCode::unsupported,
                "rope scaling " + quote(type) + "; it must be default, linear, dynamic, yarn or llama3");
  }
  return fields.take_status();
}

}  // namespace detail

inline Expected<ModelConfig> hf_config(const Json& config, const std::string& origin) {
  JsonFields f(config, origin);
  ModelConfig c;
  f.text("model_type", c.architecture, true);
  const std::string& arch = c.architecture;
  if (f.ok() && arch != "llama" && arch != "mistral" && arch != "qwen2" && arch != "qwen3" && arch != "internlm2")
    f.fail(StatusCode::unsupported,
           "the architecture " + quote(arch) + "; it must be llama, mistral, qwen2, qwen3 or internlm2");
  if (const Json* quantized = find(config, "quantization_config")) {
    std::string method = "unnamed";
    if (const Json* named = find(*quantized, "quant_method"); named && named->is_string()) method = *named;
    f.fail(StatusCode::unsupported,
           "weights quantized with the method " + quote(method) + "; they must be F32, F16 or BF16");
  }
  f.text("_name_or_path", c.name);
  f.integer("num_hidden_layers", c.layers, true);
  f.integer("hidden_size", c.dim, true);
  f.integer("num_attention_heads", c.heads, true);
  c.kv_heads = c.heads;
  f.integer("num_key_value_heads", c.kv_heads);
  f.integer("intermediate_size", c.hidden, true);
  f.integer("vocab_size", c.vocab, true);
  f.integer("max_position_embeddings", c.context, true);
  c.rms_eps = 1e-6;
  f.number("rms_norm_eps", c.rms_eps);
  if (f.ok() && (c.heads < 1 || c.dim < 1))
    f.fail(StatusCode::corrupt_data, "num_attention_heads and hidden_size must be positive");
  if (f.ok()) c.head_dim = c.dim / c.heads;
  f.integer("head_dim", c.head_dim);
  bool windowed = arch == "mistral";  // Qwen states a window and does not use it
  f.boolean("use_sliding_window", windowed);
  if (windowed) f.integer("sliding_window", c.sliding_window);
  f.boolean("tie_word_embeddings", c.tie_embeddings);
  bool bias = false, mlp_bias = false;
  f.boolean(arch == "internlm2" ? "bias" : "attention_bias", bias);
  f.boolean("mlp_bias", mlp_bias);
  if (mlp_bias) f.fail(StatusCode::unsupported, "mlp_bias; it must be false");
  if (std::string act = "silu"; f.text("hidden_act", act) && act != "silu")
    f.fail(StatusCode::unsupported, "the activation " + quote(act) + "; it must be silu");
  c.qkv_bias = bias || arch == "qwen2";
  c.output_bias = bias;
  c.qk_norm = arch == "qwen3";
  if (arch == "qwen2") c.output_bias = false;
  if (Status status = f.take_status(); !status) return failure(std::move(status));
  // Before anything is sized by these numbers (the frequency factors are).
  c.rope.dim = 2;
  if (c.head_dim >= 2)
    if (Status status = check_config(c, origin); !status) return failure(std::move(status));
  if (Status status = detail::read_hf_rope(config, origin, c); !status) return failure(std::move(status));
  if (Status status = check_config(c, origin); !status) return failure(std::move(status));
  return c;
}

}  // namespace inlay::exec
