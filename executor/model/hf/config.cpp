#include <algorithm>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/hf/config.hpp"
#include "executor/model/hf/rope.hpp"

namespace inlay::exec {

namespace {

// The list that has an entry for each layer; null where the key is missing.
Expected<Json> list_of_layers(const Json& json, const char* key, const std::string& origin, index layers) {
  const Json list = json.find(key);
  if (list && !list.is_array())
    return failure(StatusCode::corrupt_data, origin + ": the key " + quote(key) + " is no list");
  if (list && static_cast<index>(list.size()) != layers)
    return failure(StatusCode::corrupt_data, origin + ": " + key + " has " + std::to_string(list.size()) +
                                                 " entries; there must be one for each of the " +
                                                 std::to_string(layers) + " layers");
  return list;
}

Status read_widths(const Json& json, const std::string& origin, std::vector<LayerConfig>& layers) {
  constexpr const char* key = "intermediate_size";
  JsonFields fields(json, origin);
  if (!json.find(key).is_array()) {
    index width = 0;
    fields.integer(key, width, true);
    for (LayerConfig& layer : layers) layer.hidden = width;
    return fields.take_status();
  }
  auto list = list_of_layers(json, key, origin, static_cast<index>(layers.size()));
  if (!list) return std::move(list.error());
  std::size_t i = 0;
  for (const Json width : list->elements()) {
    if (!width.is_integer())
      return {StatusCode::corrupt_data, origin + ": entry " + std::to_string(i) + " of " + key + " is no integer"};
    layers[i++].hidden = width.integer();
  }
  return {};
}

// Mistral's layers all have the window. Qwen's have it from max_window_layers on, if use_sliding_window says so.
// layer_types overrules both, and is the only way for the others.
Status read_windows(const Json& json, const std::string& origin, const std::string& arch,
                    std::vector<LayerConfig>& layers) {
  constexpr index default_window = 4096, default_full_layers = 28;  // transformers' of Mistral and Qwen
  auto types = list_of_layers(json, "layer_types", origin, static_cast<index>(layers.size()));
  if (!types) return std::move(types.error());
  const bool mistral = arch == "mistral", qwen = arch == "qwen2" || arch == "qwen3";
  JsonFields fields(json, origin);
  bool used = !qwen && (mistral || types->is_array());
  if (qwen) fields.boolean("use_sliding_window", used);
  index window = (mistral || qwen) && !json.contains("sliding_window") ? default_window : 0;
  index full_layers = qwen ? default_full_layers : 0;
  fields.integer("sliding_window", window);  // null: none
  if (qwen) fields.integer("max_window_layers", full_layers);
  if (Status status = fields.take_status(); !status) return status;
  if (!used) window = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    bool sliding = static_cast<index>(i) >= full_layers;
    if (const Json type = (*types)[i]; *types) {
      sliding = type == "sliding_attention";
      if (!sliding && type != "full_attention")
        return {StatusCode::unsupported, origin + ": entry " + std::to_string(i) + " of layer_types is " +
                                             quote(shown(type)) + "; it must be full_attention or sliding_attention"};
      if (sliding && window == 0)
        return {StatusCode::corrupt_data, origin + ": layer_types has sliding_attention, but sliding_window is absent" +
                                              (qwen ? " or use_sliding_window false" : "")};
    }
    layers[i].window = sliding ? window : 0;
  }
  return {};
}

// What may differ between layers.
Status read_layers(const Json& json, const std::string& origin, ModelConfig& c) {
  std::vector<LayerConfig> layers(static_cast<std::size_t>(c.layers));
  if (Status status = read_widths(json, origin, layers); !status) return status;
  if (Status status = read_windows(json, origin, c.architecture, layers); !status) return status;
  HfLayerKinds kinds;
  for (const LayerConfig& layer : layers) (layer.window > 0 ? kinds.sliding : kinds.full) = true;
  double sliding_theta = 0;
  if (Status status = read_hf_rope(json, origin, kinds, c, sliding_theta); !status) return status;
  for (LayerConfig& layer : layers) layer.rope_theta = layer.window > 0 ? sliding_theta : c.rope.theta;
  c.set_layers(std::move(layers));
  return {};
}

}  // namespace

Expected<ModelConfig> hf_config(const Json& config, const std::string& origin) {
  JsonFields f(config, origin);
  ModelConfig c;
  f.text("model_type", c.architecture, true);
  const std::string& arch = c.architecture;
  if (f.ok() && arch != "llama" && arch != "mistral" && arch != "qwen2" && arch != "qwen3" && arch != "internlm2")
    f.fail(StatusCode::unsupported,
           "the architecture " + quote(arch) + "; it must be llama, mistral, qwen2, qwen3 or internlm2");
  if (const Json quantized = config.find("quantization_config")) {
    std::string method = "unnamed";
    if (const Json named = quantized.find("quant_method"); named.is_string()) method = named.text();
    f.fail(StatusCode::unsupported,
           "weights quantized with the method " + quote(method) + "; they must be F32, F16 or BF16");
  }
  f.text("_name_or_path", c.name);
  f.integer("num_hidden_layers", c.layers, true);
  f.integer("hidden_size", c.dim, true);
  f.integer("num_attention_heads", c.heads, true);
  c.kv_heads = c.heads;
  f.integer("num_key_value_heads", c.kv_heads);
  f.integer("vocab_size", c.vocab, true);
  c.context = arch == "mistral" ? 131072 : arch == "qwen2" || arch == "qwen3" ? 32768 : 2048;  // transformers' own
  f.integer("max_position_embeddings", c.context);
  c.rms_eps = 1e-6;
  f.number("rms_norm_eps", c.rms_eps);
  if (f.ok() && (c.heads < 1 || c.dim < 1))
    f.fail(StatusCode::corrupt_data, "num_attention_heads and hidden_size must be positive");
  if (f.ok()) c.head_dim = arch == "qwen3" ? 128 : c.dim / c.heads;  // where nothing is said, as transformers has it
  f.integer("head_dim", c.head_dim);
  f.boolean("tie_word_embeddings", c.tie_embeddings);
  bool bias = false, mlp_bias = false;
  f.boolean(arch == "internlm2" ? "bias" : "attention_bias", bias);
  f.boolean("mlp_bias", mlp_bias);
  if (mlp_bias) f.fail(StatusCode::unsupported, "mlp_bias; it must be false");
  if (std::string act = "silu"; f.text("hidden_act", act) && act != "silu" && act != "swish")
    f.fail(StatusCode::unsupported, "the activation " + quote(act) + "; it must be silu, or swish, which is the same");
  c.qkv_bias = bias || arch == "qwen2";
  c.output_bias = bias;
  c.qk_norm = arch == "qwen3";
  if (arch == "qwen2") c.output_bias = false;
  if (Status status = f.take_status(); !status) return failure(std::move(status));
  // Before anything is sized by these numbers (lists of layers and frequency factors are).
  c.rope.dim = 2, c.hidden = 1;
  if (Status status = check_config(c, origin); !status) return failure(std::move(status));
  if (Status status = read_layers(config, origin, c); !status) return failure(std::move(status));
  if (Status status = check_config(c, origin); !status) return failure(std::move(status));
  return c;
}

}  // namespace inlay::exec
