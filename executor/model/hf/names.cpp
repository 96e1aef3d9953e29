#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include <inlay/model/model_tensors.hpp>

#include "executor/model/hf/names.hpp"

namespace inlay::exec {

bool is_of_another_modality(std::string_view name) {
  constexpr std::string_view models[] = {"vision_tower.",
                                         "multi_modal_projector.",
                                         "mm_projector.",
                                         "model.vision_tower.",
                                         "model.multi_modal_projector.",
                                         "model.embed_vision.",
                                         "model.audio_tower.",
                                         "model.embed_audio."};
  return std::any_of(std::begin(models), std::end(models),
                     [&](std::string_view each) { return name.starts_with(each); });
}

namespace {

// language_model.model.x and language_model.lm_head.x, or model.language_model.x: model.x and lm_head.x
std::string without_outer(std::string_view name) {
  for (const auto& [outer, inner] :
       {std::pair<std::string_view, std::string_view>{"language_model.", ""}, {"model.language_model.", "model."}})
    if (name.starts_with(outer)) return std::string(inner) + std::string(name.substr(outer.size()));
  return std::string(name);
}

}  // namespace

bool take_hf_layer(std::string_view& name, index& layer) {
  for (const std::string_view layers :
       {"model.layers.", "language_model.model.layers.", "model.language_model.layers."}) {
    if (!name.starts_with(layers)) continue;
    std::string_view rest = name.substr(layers.size());
    const auto number = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    if (number.ec != std::errc{} || layer < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(number.ptr - rest.data()));
    if (!rest.starts_with('.')) return false;
    name = rest.substr(1);
    return true;
  }
  return false;
}

std::optional<std::string> gguf_name(std::string_view name, const Family& family) {
  const std::string plain = without_outer(name);
  name = plain;
  constexpr std::pair<std::string_view, std::string_view> whole[] = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.tok_embeddings.weight", "token_embd.weight"},
      {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
      {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
      {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"model.norm.bias", "output_norm.bias"},
      {"model.final_layernorm.weight", "output_norm.weight"},
      {"model.final_layernorm.bias", "output_norm.bias"},
      {"lm_head.weight", "output.weight"},
      {"lm_head.bias", "output.bias"},
      {"output.weight", "output.weight"}};
  constexpr std::pair<std::string_view, std::string_view> parts[] = {
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"self_attn.query_layernorm", "attn_q_norm"},
      {"self_attn.key_layernorm", "attn_k_norm"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.q_a_proj", "attn_q_a"},
      {"self_attn.q_a_layernorm", "attn_q_a_norm"},
      {"self_attn.q_b_proj", "attn_q_b"},
      {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
      {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
      {"self_attn.kv_b_proj", "attn_kv_b"},
      {"mlp.gate_up_proj", "ffn_gate_up"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"self_attn.dense", "attn_output"},  // from here: Phi-2
      {"mlp.fc1", "ffn_up"},
      {"mlp.fc2", "ffn_down"},
      {"mlp.c_fc", "ffn_up"},  // and StarCoder2
      {"mlp.c_proj", "ffn_down"},
      {"mlp.gate", "ffn_gate_inp"},  // from here: mixtures of experts (hf/experts.hpp has those themselves)
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"block_sparse_moe.router.layer", "ffn_gate_inp"},
      {"mlp.router", "ffn_gate_inp"},
      {"router.proj", "ffn_gate_inp"},  // from here: Gemma 4
      {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
      {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
      {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
      {"per_layer_input_gate", "inp_gate"},
      {"per_layer_projection", "proj"},
      {"post_per_layer_input_norm", "post_norm"},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
      {"shared_mlp.input_linear", "ffn_gate_up_shexp"},
      {"shared_mlp.output_linear", "ffn_down_shexp"},
      {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
      {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
      {"attention.wqkv", "attn_qkv_by_kv_head"},  // from here: InternLM2
      {"attention.wo", "attn_output"},
      {"feed_forward.w1", "ffn_gate"},
      {"feed_forward.w3", "ffn_up"},
      {"feed_forward.w2", "ffn_down"}};
  for (const auto& [theirs, ours] : whole)
    if (name == theirs) return std::string(ours);
  index layer = 0;
  if (!take_hf_layer(name, layer)) return std::nullopt;
  constexpr std::pair<std::string_view, std::string_view> vectors[] = {
      {"self_attn.sinks", "attn_sinks.weight"},
      {"router.scale", "ffn_gate_inp.scale"},
      {"router.per_expert_scale", "ffn_down_exps.scale"},
      {"layer_scalar", "layer_output_scale.weight"}};
  for (const auto& [theirs, ours] : vectors)
    if (name == theirs) return block_name(layer, ours);
  for (const std::string_view bias : {"mlp.gate.e_score_correction_bias", "mlp.moe_statics.e_score_correction_bias",
                                      "block_sparse_moe.e_score_correction_bias"})
    if (name == bias) return block_name(layer, "exp_probs_b.bias");
  const auto is = [&](std::string_view theirs, std::string_view kind) {
    return name.size() == theirs.size() + kind.size() && name.starts_with(theirs) && name.ends_with(kind);
  };
  constexpr std::string_view norms[] = {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"};
  for (const std::string_view kind : {".weight", ".bias"}) {
    for (std::size_t i = 0; i < std::size(norms); ++i)
      if (!family.norm_names[i].empty() && is(family.norm_names[i], kind))
        return block_name(layer, std::string(norms[i]) + std::string(kind));
    for (const auto& [theirs, ours] : parts)
      if (is(theirs, kind)) return block_name(layer, std::string(ours) + std::string(kind));
  }
  return std::nullopt;
}

}  // namespace inlay::exec
