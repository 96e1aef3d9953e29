#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <inlay/core/quote.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/hf/config.hpp"
#include "executor/model/hf/experts.hpp"
#include "executor/model/hf/latent.hpp"
#include "executor/model/hf/layers.hpp"

namespace inlay::exec {

namespace {

// Keys that are read, here and in the files of this folder, where the family has a use for them.
bool is_read(std::string_view key, const Family& family) {
  constexpr std::string_view always[] = {"_name_or_path",
                                         "bos_token_id",
                                         "eos_token_id",
                                         "head_dim",
                                         "hidden_size",
                                         "intermediate_size",
                                         "layer_types",
                                         "max_position_embeddings",
                                         "mlp_bias",
                                         "model_type",
                                         "num_attention_heads",
                                         "num_hidden_layers",
                                         "num_key_value_heads",
                                         "original_max_position_embeddings",
                                         "partial_rotary_factor",
                                         "quantization_config",
                                         "rope_local_base_freq",
                                         "rope_parameters",
                                         "rope_scaling",
                                         "rope_theta",
                                         "sliding_window",
                                         "tie_word_embeddings",
                                         "vocab_size"};
  constexpr std::string_view windows[] = {"use_sliding_window", "max_window_layers", "sliding_window_pattern",
                                          "_sliding_window_pattern"};
  constexpr std::string_view turning[] = {"no_rope_layers", "no_rope_layer_interval"};
  constexpr std::string_view gemma[] = {"query_pre_attn_scalar"};
  constexpr std::string_view softcaps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
  constexpr std::string_view clipped[] = {"swiglu_alpha", "swiglu_limit"};
  constexpr std::string_view cohere[] = {"logit_scale"};
  constexpr std::string_view minicpm[] = {"scale_emb", "scale_depth", "dim_model_base"};
  constexpr std::string_view granite[] = {"embedding_multiplier", "residual_multiplier", "attention_multiplier",
                                          "logits_scaling"};
  const auto in = [&](const auto& list) { return std::find(std::begin(list), std::end(list), key) != std::end(list); };
  for (const FlagKey& flag : {family.qkv_bias, family.output_bias, family.mlp_bias, family.norm_bias, family.head_bias,
                              family.parallel, family.has_qk_norm})
    if (flag.key && key == flag.key) return true;
  // Gemma's files have a hidden_act, too, that nobody reads beside the hidden_activation that counts.
  const bool gemma_says = key == "hidden_act" || key == "hidden_activation";
  if ((family.pairing_key && key == family.pairing_key) || (family.rotary_dim && key == "rotary_dim")) return true;
  if (key == family.activation_key || (gemma_says && family.scales == Scales::gemma) || key == family.norm_eps_key)
    return true;
  if (is_hf_kinds_key(key, family.kinds)) return true;
  if (family.turning == Turning::embedding_type && key == "position_embedding_type") return true;
  return in(always) || in(windows) || is_hf_experts_key(key, family.mixture) || is_hf_latent_key(key, family.latent) ||
         (family.scales == Scales::minicpm && in(minicpm)) ||
         (family.turning == Turning::three_of_four && in(turning)) ||
         (family.activation == Activation::clipped_swiglu && in(clipped)) ||
         (family.softcaps.has_keys && in(softcaps)) || (family.scales == Scales::gemma && in(gemma)) ||
         (family.scales == Scales::cohere && in(cohere)) || (family.scales == Scales::granite && in(granite));
}

// Keys that change no number of a text that is read: how the model was trained, saved, sampled and served.
bool is_harmless(std::string_view key, const Family& family) {
  constexpr std::string_view known =
      " _attn_implementation architectures attn_implementation auto_map bad_words_ids begin_suppress_tokens "
      "cache_implementation chunk_size_feed_forward cross_attention_hidden_size diversity_penalty do_sample dtype "
      "early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty finetuning_task id2label "
      "initializer_factor initializer_range is_composition is_decoder is_encoder_decoder is_llama_config "
      "keys_to_ignore_"
      "at_inference label2id length_penalty max_length min_length no_repeat_ngram_size num_beam_groups num_beams "
      "num_return_sequences output_attentions output_hidden_states output_router_logits output_scores prefix "
      "pretraining_tp problem_type pruned_heads remove_invalid_values repetition_penalty return_dict return_dict_in_"
      "generate suppress_tokens task_specific_params temperature tf_legacy_loss tokenizer_class top_k top_p "
      "torch_dtype "
      "torchscript transformers_version typical_p use_bfloat16 use_cache use_flash_attn ";
  constexpr std::string_view endings[] = {"_dropout", "_pdrop", "_token_id", "_loss_coef"};
  const std::string word = " " + std::string(key) + " ";
  return known.find(word) != std::string_view::npos || family.idle_keys.find(word) != std::string_view::npos ||
         key.starts_with("transformers") || key.starts_with("unsloth") ||
         std::any_of(std::begin(endings), std::end(endings), [&](std::string_view end) { return key.ends_with(end); });
}

// Keys that change what a model computes, with the value at which they do not.
bool is_neutral(std::string_view key, const Json& value) {
  constexpr std::string_view off[] = {"attention_bias",
                                      "attention_out_bias",
                                      "add_cross_attention",
                                      "bias",
                                      "qk_layernorm",
                                      "qkv_bias",
                                      "rope_interleaved",
                                      "tie_encoder_decoder",
                                      "use_bidirectional_attention",
                                      "use_bias",
                                      "use_mrope",
                                      "use_qk_norm",
                                      "use_qkv_bias",
                                      "use_sliding_window"};
  if (key == "use_bidirectional_attention" && value == "vision") return true;  // of images, which no text has
  const bool empty = value.is_null() || ((value.is_object() || value.is_array()) && value.size() == 0);
  return empty || (value.is_false() && std::find(std::begin(off), std::end(off), key) != std::end(off));
}

void refuse_unknown(const Json& config, const Family& family, JsonFields& fields) {
  for (const auto& [key, value] : config.members())
    if (!is_read(key, family) && !is_harmless(key, family) && !is_neutral(key, value) &&
        !is_idle_hf_experts_key(key, value, family.mixture))
      return fields.fail(StatusCode::unsupported, "the key " + quote(key) + " is " + quote(written(value)) +
                                                      "; no model of the architecture " +
                                                      quote(std::string(family.hf)) + " that is read has it");
}

void read_activation(JsonFields& f, const Family& family, ModelConfig& c) {
  c.activation = family.activation, c.gated = family.gated;
  const bool clipped = family.activation == Activation::clipped_swiglu;
  for (const auto& [key, value] : {std::pair{"swiglu_alpha", 1.702}, {"swiglu_limit", 7.0}})
    if (double said = value; clipped && f.number(key, said) && said != value)
      f.fail(StatusCode::unsupported, std::string(key) + " is another than " + std::to_string(value));
  std::string name;
  if (!f.text(family.activation_key, name)) return;
  if (clipped && name == "silu") return;                         // which is clipped in this family
  if (name == "gelu" && family.scales == Scales::gemma) return;  // what Gemma's first files call it
  constexpr std::pair<std::string_view, Activation> names[] = {
      {"silu", Activation::silu},          {"swish", Activation::silu},
      {"gelu", Activation::gelu},          {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_new", Activation::gelu_tanh}, {"relu2", Activation::relu_squared}};
  if (name == "xielu" && family.activation == Activation::xielu) return;
  for (const auto& [each, activation] : names)
    if (name == each) return void(c.activation = activation);
  f.fail(StatusCode::unsupported, "the activation " + quote(name) +
                                      "; it must be silu, swish, gelu, gelu_new, gelu_pytorch_tanh or relu2" +
                                      (family.activation == Activation::xielu ? ", or xielu" : ""));
}

void read_softcaps(const Json& config, JsonFields& f, const Family& family, ModelConfig& c) {
  if (!family.softcaps.has_keys) return;
  const auto read = [&](const char* key, double otherwise, double& to) {
    to = config.contains(key) ? 0 : otherwise;
    f.number(key, to);
  };
  read("attn_logit_softcapping", family.softcaps.scores, c.attn_softcap);
  read("final_logit_softcapping", family.softcaps.logits, c.final_softcap);
}

void read_scales(const Json& json, JsonFields& f, const Family& family, ModelConfig& c) {
  switch (family.scales) {
    case Scales::none: return;
    case Scales::gemma: {
      double width = static_cast<double>(c.head_dim);
      f.number("query_pre_attn_scalar", width);
      if (!(width > 0)) return f.fail(StatusCode::corrupt_data, "query_pre_attn_scalar must be positive");
      c.embed_scale = std::sqrt(static_cast<double>(c.dim)), c.attn_scale = 1 / std::sqrt(width);
      return;
    }
    case Scales::gemma4: c.embed_scale = std::sqrt(static_cast<double>(c.dim)), c.attn_scale = 1; return;
    case Scales::cohere: c.logit_scale = 0.0625, f.number("logit_scale", c.logit_scale); return;
    case Scales::granite: {
      double logits = 1;
      c.attn_scale = 1;
      f.number("embedding_multiplier", c.embed_scale), f.number("residual_multiplier", c.residual_scale);
      f.number("attention_multiplier", c.attn_scale), f.number("logits_scaling", logits);
      c.logit_scale = 1 / logits;
      return;
    }
    case Scales::minicpm: {
      // Null is the number at which nothing is scaled.
      const double dim = static_cast<double>(c.dim), layers = std::sqrt(static_cast<double>(c.layers));
      double depth = json.contains("scale_depth") ? layers : 1.4, base = json.contains("dim_model_base") ? dim : 256;
      const bool stated = family.latent.kv_rank == 0;  // MiniCPM 1, 2 and 4, whose code means 1 where a file is silent
      c.embed_scale = 12;
      f.number("scale_emb", c.embed_scale, stated), f.number("scale_depth", depth, stated);
      f.number("dim_model_base", base, stated);
      c.residual_scale = depth / layers, c.logit_scale = base / dim;
      return;
    }
  }
}

Expected<ModelConfig> text_config(const Json& config, const std::string& origin) {
  JsonFields f(config, origin);
  ModelConfig c;
  f.text("model_type", c.architecture, true);
  const Family* known = family_of_hf(c.architecture);
  if (!known)
    f.fail(StatusCode::unsupported,
           "the architecture " + quote(c.architecture) + "; it must be " + known_families(&Family::hf));
  if (Status status = f.take_status(); !status) return failure(std::move(status));
  const Family& family = *known;
  refuse_unknown(config, family, f);
  f.text("_name_or_path", c.name);
  f.integer("num_hidden_layers", c.layers, true);
  f.integer("hidden_size", c.dim, true);
  c.heads = family.heads, c.vocab = family.vocab, c.context = family.context;
  f.integer("num_attention_heads", c.heads, family.heads == 0);
  c.kv_heads = family.kv_heads == 0 ? c.heads : family.kv_heads;
  f.integer("num_key_value_heads", c.kv_heads);
  f.integer("vocab_size", c.vocab, family.vocab == 0);
  f.integer("max_position_embeddings", c.context);
  c.norm_eps = family.norm_eps;
  f.number(family.norm_eps_key, c.norm_eps);
  if (f.ok() && (c.heads < 1 || c.dim < 1))
    f.fail(StatusCode::corrupt_data, "num_attention_heads and hidden_size must be positive");
  if (f.ok()) c.head_dim = family.head_dim == 0 ? c.dim / c.heads : family.head_dim;
  if (family.latent.kv_rank == 0) f.integer("head_dim", c.head_dim);
  c.tie_embeddings = family.tied;
  f.boolean("tie_word_embeddings", c.tie_embeddings);
  for (const auto& [flag, fact] : {std::pair{family.qkv_bias, &c.qkv_bias},
                                   {family.output_bias, &c.output_bias},
                                   {family.mlp_bias, &c.mlp_bias},
                                   {family.norm_bias, &c.norm_bias},
                                   {family.head_bias, &c.head_bias},
                                   {family.parallel, &c.parallel}}) {
    *fact = flag.otherwise;
    if (flag.key) f.boolean(flag.key, *fact);
  }
  c.norms = family.norms(c.parallel), c.norm = family.norm;
  c.norm_weights = family.norm_weights, c.embed_norm = family.embed_norm, c.v_norm = family.v_norm;
  c.layer_scales = family.layer_scales;
  c.sinks = family.sinks;
  bool has_qk_norm = family.has_qk_norm.otherwise;
  if (family.has_qk_norm.key) f.boolean(family.has_qk_norm.key, has_qk_norm);
  c.qk_norm = has_qk_norm ? family.qk_norm : QkNorm::none;
  if (f.ok())
    if (Status status = read_hf_latent(config, origin, family.latent, c); !status) return failure(std::move(status));
  read_activation(f, family, c);
  read_scales(config, f, family, c);
  read_softcaps(config, f, family, c);
  if (Status status = f.take_status(); !status) return failure(std::move(status));
  // Before anything is sized by these numbers (lists of layers and frequency factors are).
  if (Status status = read_hf_experts(config, origin, family.mixture, c); !status) return failure(std::move(status));
  c.ropes[0].dim = c.is_latent() ? c.latent.rope_dim : 2, c.hidden = 1;
  if (Status status = check_config(c, origin); !status) return failure(std::move(status));
  if (Status status = read_hf_layers(config, origin, family, c); !status) return failure(std::move(status));
  if (Status status = check_config(c, origin); !status) return failure(std::move(status));
  return c;
}

}  // namespace

Expected<ModelConfig> hf_config(const Json& config, const std::string& origin) {
  const Json text = config.find("text_config");
  return text.is_object() ? text_config(text, origin + ": text_config") : text_config(config, origin);
}

}  // namespace inlay::exec
