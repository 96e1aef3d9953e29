#include <charconv>
#include <utility>

#include <inlay/model/model_tensors.hpp>

#include "executor/model/hf/names.hpp"

namespace inlay::exec {

std::optional<std::string> gguf_name(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> whole[] = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.tok_embeddings.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"},
      {"output.weight", "output.weight"}};
  constexpr std::pair<std::string_view, std::string_view> parts[] = {
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"attention_norm", "attn_norm"},  // from here: InternLM2
      {"ffn_norm", "ffn_norm"},
      {"attention.wqkv", "attn_qkv"},
      {"attention.wo", "attn_output"},
      {"feed_forward.w1", "ffn_gate"},
      {"feed_forward.w3", "ffn_up"},
      {"feed_forward.w2", "ffn_down"}};
  for (const auto& [theirs, ours] : whole)
    if (name == theirs) return std::string(ours);
  constexpr std::string_view layers = "model.layers.";
  if (!name.starts_with(layers)) return std::nullopt;
  name.remove_prefix(layers.size());
  index layer = 0;
  const auto number = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (number.ec != std::errc{} || layer < 0) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(number.ptr - name.data()));
  if (!name.starts_with('.')) return std::nullopt;
  name.remove_prefix(1);
  for (const std::string_view kind : {".weight", ".bias"})
    for (const auto& [theirs, ours] : parts)
      if (name.size() == theirs.size() + kind.size() && name.starts_with(theirs) && name.ends_with(kind))
        return block_name(layer, std::string(ours) + std::string(kind));
  return std::nullopt;
}

}  // namespace inlay::exec
