// A Hugging Face checkpoint of a few kilobytes, in parts that tests change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <inlay/core/view.hpp>

namespace inlay::exec::test {

using Json = nlohmann::json;

// A safetensors file of f32 tensors whose elements count up from `first`.
struct Shard {
  Json header = Json::object();
  std::string data;
  void add(const std::string& name, std::vector<index> shape, float first = 0) {
    std::size_t size = 1;
    for (const index extent : shape) size *= static_cast<std::size_t>(extent);
    const std::size_t begin = data.size();
    for (std::size_t i = 0; i < size; ++i) {
      const float value = first + static_cast<float>(i);
      data.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string bytes() const {
    const std::string json = header.dump();
    const std::uint64_t length = json.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json + data;
  }
};

inline Json llama_config() {
  return {{"model_type", "llama"},    {"hidden_size", 8},
          {"num_hidden_layers", 1},   {"num_attention_heads", 2},
          {"num_key_value_heads", 1}, {"intermediate_size", 16},
          {"vocab_size", 10},         {"max_position_embeddings", 32},
          {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", true}};
}

inline Shard llama_shard() {
  Shard s;
  const std::string l = "model.layers.0.";
  s.add("model.embed_tokens.weight", {10, 8}, 1), s.add("model.norm.weight", {8}, 2);
  s.add(l + "input_layernorm.weight", {8}), s.add(l + "post_attention_layernorm.weight", {8});
  s.add(l + "self_attn.q_proj.weight", {8, 8}, 100), s.add(l + "self_attn.k_proj.weight", {4, 8}, 200);
  s.add(l + "self_attn.v_proj.weight", {4, 8}, 300), s.add(l + "self_attn.o_proj.weight", {8, 8});
  s.add(l + "mlp.gate_proj.weight", {16, 8}), s.add(l + "mlp.up_proj.weight", {16, 8}),
      s.add(l + "mlp.down_proj.weight", {8, 16});
  return s;
}

}  // namespace inlay::exec::test
