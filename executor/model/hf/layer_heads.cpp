#include <algorithm>
#include <charconv>
#include <iterator>

#include <inlay/core/quote.hpp>

#include "executor/model/hf/layers.hpp"

namespace inlay::exec {

bool is_hf_kinds_key(std::string_view key, const LayerKinds& kinds) {
  constexpr std::string_view own[] = {
      "attention_k_eq_v",     "global_head_dim",  "hidden_size_per_layer_input", "num_global_key_value_heads",
      "num_kv_shared_layers", "per_layer_config", "use_double_wide_mlp",         "vocab_size_per_layer_input"};
  return kinds.differ() && std::find(std::begin(own), std::end(own), key) != std::end(own);
}

namespace {

// What newer files say of one layer: {"5": {"head_dim": 512, "num_key_value_heads": 4}, ..}.
Status read_per_layer(const Json& all, const std::string& origin, std::vector<LayerConfig>& layers) {
  const std::string where = origin + ": per_layer_config";
  if (!all.is_object()) return {StatusCode::corrupt_data, where + " is no object"};
  for (const auto& [number, facts] : all.members()) {
    const std::string name(number);
    std::size_t i = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), i);
    if (read.ec != std::errc{} || read.ptr != name.data() + name.size() || i >= layers.size())
      return {StatusCode::corrupt_data, where + " has the key " + quote(name) + "; it must be a layer, 0 to " +
                                            std::to_string(layers.size() - 1)};
    if (!facts.is_object()) return {StatusCode::corrupt_data, where + ": " + quote(name) + " is no object"};
    JsonFields fields(facts, where + " of layer " + name);
    fields.integer("head_dim", layers[i].head_dim), fields.integer("num_key_value_heads", layers[i].kv_heads);
    for (const auto& [key, value] : facts.members())
      if (key != "head_dim" && key != "num_key_value_heads" && !value.is_null())
        fields.fail(StatusCode::unsupported,
                    "the key " + quote(std::string(key)) + "; it must be head_dim or num_key_value_heads");
    if (Status status = fields.take_status(); !status) return status;
  }
  return {};
}

// The last `count` layers see the keys and values of the last one of their kind before them.
Status share_kv(index count, const std::string& origin, std::vector<LayerConfig>& layers) {
  const auto all = static_cast<index>(layers.size());
  if (count < 0 || count >= all)
    return {StatusCode::corrupt_data, origin + ": num_kv_shared_layers is " + std::to_string(count) +
                                          "; it must be 0 to " + std::to_string(all - 1)};
  for (index i = all - count; i < all; ++i) {
    LayerConfig& layer = layers[static_cast<std::size_t>(i)];
    index other = all - count - 1;
    const auto is_other_kind = [&](index of) {
      return (layers[static_cast<std::size_t>(of)].window > 0) != (layer.window > 0);
    };
    while (other >= 0 && is_other_kind(other)) --other;
    if (other < 0)
      return {StatusCode::corrupt_data, origin + ": num_kv_shared_layers is " + std::to_string(count) +
                                            ", and no layer of the kind of layer " + std::to_string(i) +
                                            " has keys and values of its own"};
    layer.kv_layer = other;
  }
  return {};
}

}  // namespace

Status read_hf_heads(const Json& json, const std::string& origin, const LayerKinds& kinds, ModelConfig& c,
                     std::vector<LayerConfig>& layers) {
  for (LayerConfig& layer : layers) layer.kv_heads = c.kv_heads, layer.head_dim = c.head_dim;
  if (!kinds.differ()) return {};
  JsonFields fields(json, origin);
  bool v_is_k = false, double_wide = false;
  index full_dim = kinds.full_head_dim, full_heads = c.kv_heads, shared = 0, vocab = c.vocab;
  fields.boolean("attention_k_eq_v", v_is_k), fields.boolean("use_double_wide_mlp", double_wide);
  fields.integer("global_head_dim", full_dim), fields.integer("num_kv_shared_layers", shared);
  if (v_is_k) fields.integer("num_global_key_value_heads", full_heads);  // which counts for nothing without
  c.layer_inputs.dim = 256;
  fields.integer("hidden_size_per_layer_input", c.layer_inputs.dim);
  if (json.find("hidden_size_per_layer_input").is_null() && json.contains("hidden_size_per_layer_input"))
    c.layer_inputs.dim = 0;
  fields.integer("vocab_size_per_layer_input", vocab);
  if (fields.ok() && c.layer_inputs.dim > 0 && vocab != c.vocab)
    fields.fail(StatusCode::unsupported, "vocab_size_per_layer_input is " + std::to_string(vocab) +
                                             "; it must be the vocabulary, " + std::to_string(c.vocab));
  if (Status status = fields.take_status(); !status) return status;
  const Json per_layer = json.find("per_layer_config");
  for (LayerConfig& layer : layers) {
    const bool full = layer.window == 0;
    if (full && !per_layer) layer.head_dim = full_dim, layer.kv_heads = full_heads;
    layer.v_is_k = full && v_is_k;
  }
  if (per_layer)
    if (Status status = read_per_layer(per_layer, origin, layers); !status) return status;
  if (Status status = share_kv(shared, origin, layers); !status) return status;
  for (LayerConfig& layer : layers) {
    if (layer.kv_layer == LayerConfig::own_kv) continue;
    layer.v_is_k = false;  // it has neither
    if (double_wide) layer.hidden *= 2;
  }
  return {};
}

}  // namespace inlay::exec
