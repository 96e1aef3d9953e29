#include "executor/model/gguf/heads.hpp"

#include <cstdint>
#include <span>
#include <unordered_set>

#include <inlay/core/quote.hpp>
#include <inlay/model/model_tensors.hpp>

namespace inlay::exec {

namespace {

constexpr const char* kv_heads_key = ".attention.head_count_kv";
constexpr const char* windowed_key_length = ".attention.key_length_swa";
constexpr const char* windowed_value_length = ".attention.value_length_swa";
constexpr const char* shared_key = ".attention.shared_kv_layers";
constexpr const char* inputs_key = ".embedding_length_per_layer_input";

}  // namespace

void read_gguf_heads(const GgufFile& file, GgufMetadata& meta, const std::string& arch, ModelConfig& c,
                     std::vector<LayerConfig>& layers) {
  const auto count = static_cast<index>(layers.size());
  std::vector<index> kv_heads;
  meta.per_layer(arch + kv_heads_key, count, kv_heads, false);
  if (kv_heads.empty()) kv_heads.assign(1, c.heads);
  index windowed = c.head_dim, shared = 0;
  meta.integer(arch + windowed_key_length, windowed, false);
  if (index value = windowed; meta.integer(arch + windowed_value_length, value, false) && value != windowed)
    meta.fail(StatusCode::unsupported, "value heads of another length than key heads, in layers with a window");
  meta.integer(arch + inputs_key, c.layer_inputs.dim, false);
  if (meta.integer(arch + shared_key, shared, false) && (shared < 0 || shared >= count))
    meta.fail(StatusCode::corrupt_data, "the key " + quote(arch + shared_key) + " is " + std::to_string(shared) +
                                            "; it must be 0 to " + std::to_string(count - 1));
  if (!meta.ok()) return;
  std::unordered_set<std::string> values;
  for (const WeightTensor& tensor : file.tensors())
    if (tensor.name.ends_with(".attn_v.weight")) values.insert(tensor.name);
  const index first_shared = count - shared;
  for (index i = 0; i < count; ++i) {
    LayerConfig& layer = layers[static_cast<std::size_t>(i)];
    layer.kv_heads = kv_heads[kv_heads.size() == 1 ? 0 : static_cast<std::size_t>(i)];
    layer.head_dim = layer.window > 0 ? windowed : c.head_dim;
    if (i < first_shared) {
      layer.v_is_k = !values.empty() && !values.contains(block_name(i, "attn_v.weight"));
      continue;
    }
    index other = first_shared - 1;
    while (other >= 0 && (layers[static_cast<std::size_t>(other)].window > 0) != (layer.window > 0)) --other;
    if (other < 0)
      return meta.fail(StatusCode::corrupt_data, "the key " + quote(arch + shared_key) + " is " +
                                                     std::to_string(shared) + ", and no layer of the kind of layer " +
                                                     std::to_string(i) + " has keys and values of its own");
    layer.kv_layer = other;
  }
}

Status write_gguf_heads(const ModelConfig& c, const std::string& arch, const std::string& origin, GgufWriter& writer) {
  std::vector<std::int32_t> kv_heads;
  index full = 0, windowed = 0, shared = 0;
  for (index i = 0; i < c.layers; ++i) {
    const LayerConfig layer = c.layer(i);
    kv_heads.push_back(static_cast<std::int32_t>(layer.kv_heads));
    shared += layer.kv_layer != LayerConfig::own_kv;
    index& dim = layer.window > 0 ? windowed : full;
    if (dim != 0 && dim != layer.head_dim)
      return {StatusCode::unsupported, origin + ": layer " + std::to_string(i) + " has heads of " +
                                           std::to_string(layer.head_dim) + ", others of its kind of " +
                                           std::to_string(dim) + "; GGUF has a form for one length of each kind"};
    dim = layer.head_dim;
  }
  const auto number = [&](const char* key, index value) { writer.set(arch + key, static_cast<std::uint32_t>(value)); };
  writer.set(arch + kv_heads_key, std::span<const std::int32_t>(kv_heads));
  number(".attention.key_length", full), number(".attention.value_length", full);
  number(windowed_key_length, windowed), number(windowed_value_length, windowed);
  number(shared_key, shared), number(inputs_key, c.layer_inputs.dim);
  return {};
}

}  // namespace inlay::exec
