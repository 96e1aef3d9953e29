// Has a file everything that its configuration needs? Loaders end with this question, so that
// nobody after them has to ask.
#pragma once

#include <initializer_list>
#include <string>

#include <inlay/model/model_file.hpp>
#include <inlay/model/model_tensors.hpp>
#include <inlay/text/quote.hpp>

namespace inlay::exec {

namespace detail {

inline std::string describe_extents(const WeightTensor& tensor) {
  std::string text = "[";
  for (int d = 0; d < tensor.rank; ++d) text += (d ? ", " : "") + std::to_string(tensor.extents[d]);
  return text + "]";
}

inline Status check_tensor(const ModelFile& file, const std::string& name, std::initializer_list<index> extents) {
  const WeightTensor* tensor = file.find(name);
  if (!tensor) return {StatusCode::not_found, file.path + ": the tensor " + quote(name) + " is missing"};
  WeightTensor wanted{.rank = static_cast<int>(extents.size())};
  std::copy(extents.begin(), extents.end(), wanted.extents.begin());
  if (tensor->rank != wanted.rank || tensor->extents != wanted.extents)
    return {StatusCode::corrupt_data, file.path + ": the tensor " + quote(name) + " has extents " +
                                          describe_extents(*tensor) + "; they must be " + describe_extents(wanted)};
  const bool vector = wanted.rank == 1;
  const bool plain = tensor->type == GgmlType::F32 || tensor->type == GgmlType::F16 || tensor->type == GgmlType::BF16;
  if (vector ? !plain : !is_weight_type(tensor->type))
    return {StatusCode::unsupported, file.path + ": the tensor " + quote(name) + " has the type " +
                                         std::string(ggml_format(tensor->type).name) + "; it must be " +
                                         (vector ? "F32, F16 or BF16" : "a float, a block format or I8")};
  if (tensor->type == GgmlType::I8) {
    const WeightTensor* scales = file.scales_of(*tensor);
    if (!scales)
      return {StatusCode::not_found,
              file.path + ": the I8 tensor " + quote(name) + " has no " + quote(name + ".scale")};
    if (scales->type != GgmlType::F32 || scales->rank != 1 || scales->extents[0] != tensor->extents[0])
      return {StatusCode::corrupt_data, file.path + ": the tensor " + quote(scales->name) + " must be F32 of [" +
                                            std::to_string(tensor->extents[0]) + "]"};
  }
  return {};
}

}  // namespace detail

// Numbers that later code multiplies and loops over.
inline Status check_config(const ModelConfig& c, const std::string& origin) {
  constexpr index most = index{1} << 28;  // products of two of them stay far below 2^63
  const std::pair<const char*, index> sizes[] = {{"layers", c.layers},         {"embedding length", c.dim},
                                                 {"heads", c.heads},           {"kv heads", c.kv_heads},
                                                 {"head dim", c.head_dim},     {"hidden", c.hidden},
                                                 {"vocabulary size", c.vocab}, {"context length", c.context}};
  for (const auto& [what, value] : sizes)
    if (value < 1 || value > most)
      return {StatusCode::corrupt_data,
              origin + ": the " + what + " is " + std::to_string(value) + "; it must be 1 to " + std::to_string(most)};
  if (c.heads % c.kv_heads != 0)
    return {StatusCode::corrupt_data, origin + ": " + std::to_string(c.heads) + " heads cannot share " +
                                          std::to_string(c.kv_heads) + " kv heads evenly"};
  if (c.rope.dim < 2 || c.rope.dim > c.head_dim || c.rope.dim % 2 != 0)
    return {StatusCode::corrupt_data, origin + ": the rope dimension is " + std::to_string(c.rope.dim) +
                                          "; it must be even and at most the head dim " + std::to_string(c.head_dim)};
  const auto positive = [](double x) { return x > 0 && x < 1e30; };
  if (!positive(c.rope.theta) || !positive(c.rope.factor) || !positive(c.rope.attention_factor))
    return {StatusCode::corrupt_data, origin + ": rope's theta and factors must be positive numbers"};
  if (!(c.rms_eps >= 0 && c.rms_eps < 1)) return {StatusCode::corrupt_data, origin + ": rms eps must be 0 to 1"};
  if (!c.rope.freq_factors.empty()) {
    if (static_cast<index>(c.rope.freq_factors.size()) != c.rope.dim / 2)
      return {StatusCode::corrupt_data, origin + ": rope has " + std::to_string(c.rope.freq_factors.size()) +
                                            " frequency factors; there must be " + std::to_string(c.rope.dim / 2)};
    for (const float f : c.rope.freq_factors)
      if (!positive(f)) return {StatusCode::corrupt_data, origin + ": rope's frequency factors must be positive"};
  }
  return {};
}

inline Status check_model(const ModelFile& file) {
  const ModelConfig& c = file.config;
  if (Status status = check_config(c, file.path); !status) return status;
  const index q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  Status status;
  const auto want = [&](const std::string& name, std::initializer_list<index> extents) {
    if (status) status = detail::check_tensor(file, name, extents);
    return status.ok();
  };
  want("token_embd.weight", {c.vocab, c.dim});
  want("output_norm.weight", {c.dim});
  if (!c.tie_embeddings) want("output.weight", {c.vocab, c.dim});
  if (status && file.find("token_embd.weight")->type == GgmlType::I8)
    return {StatusCode::unsupported,
            file.path + ": the tensor 'token_embd.weight' has the type I8; embeddings stay floats or blocks"};
  for (index layer = 0; layer < c.layers && status; ++layer) {
    const auto block = [&](const char* part, std::initializer_list<index> extents) {
      return want(block_name(layer, part), extents);
    };
    block("attn_norm.weight", {c.dim}), block("ffn_norm.weight", {c.dim});
    block("attn_q.weight", {q, c.dim}), block("attn_k.weight", {kv, c.dim}), block("attn_v.weight", {kv, c.dim});
    block("attn_output.weight", {c.dim, q});
    block("ffn_gate.weight", {c.hidden, c.dim}), block("ffn_up.weight", {c.hidden, c.dim});
    block("ffn_down.weight", {c.dim, c.hidden});
    if (c.qkv_bias) block("attn_q.bias", {q}), block("attn_k.bias", {kv}), block("attn_v.bias", {kv});
    if (c.output_bias) block("attn_output.bias", {c.dim});
    if (c.qk_norm) block("attn_q_norm.weight", {c.head_dim}), block("attn_k_norm.weight", {c.head_dim});
  }
  if (status && file.tokenizer.kind != TokenizerData::Kind::none &&
      static_cast<index>(file.tokenizer.tokens.size()) > c.vocab)
    return {StatusCode::corrupt_data, file.path + ": the vocabulary has " +
                                          std::to_string(file.tokenizer.tokens.size()) +
                                          " tokens, the embedding only " + std::to_string(c.vocab) + " rows"};
  return status;
}

}  // namespace inlay::exec
