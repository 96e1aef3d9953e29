// What sets the families of models apart, a row for each: everything that a file does not say, since it goes without
// saying in that family. The rest of the executor knows facts (ModelConfig), and no family's name.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <inlay/model/model_config.hpp>

namespace inlay::exec {

// A fact that config.json has a key for, and what it is where the key is absent. No key: always `otherwise`.
struct FlagKey {
  const char* key = nullptr;
  bool otherwise = false;
};

// Which layers have a window where a file does not list them.
enum class Windows : unsigned char {
  none,
  flagged,        // none, and those listed count only if use_sliding_window says so (SmolLM3)
  flagged_all,    // all, if use_sliding_window says so (Qwen3-MoE)
  flagged_turns,  // every second one before max_window_layers, the first among them, if it says so (Qwen2-MoE)
  all,            // Mistral
  behind,         // from max_window_layers on, if use_sliding_window says so (Qwen)
  always_behind,  // from max_window_layers on (dots.llm1)
  all_but_last,   // of each `period` layers the last sees all keys
  all_but_first,  // of each `period` layers the first sees all keys
};

// Which layers turn q and k.
enum class Turning : unsigned char {
  all,
  three_of_four,   // all but the last of each four, or what no_rope_layers says (SmolLM3)
  windowed,        // those with a window, where there is one (EXAONE 4)
  only_windowed,   // those with a window (Command R7B)
  embedding_type,  // all, if position_embedding_type is rope (Granite 4)
};

// Which numbers multiply, and where they stand.
enum class Scales : unsigned char {
  none,
  gemma,    // embeddings by sqrt(dim); scores by query_pre_attn_scalar^-1/2
  cohere,   // logit_scale
  granite,  // embedding_multiplier, residual_multiplier, attention_multiplier, 1 / logits_scaling
  minicpm,  // scale_emb, scale_depth / sqrt(layers), dim_model_base / dim
  gemma4,   // embeddings by sqrt(dim); scores by 1
};

// Caps of scores and logits where a file does not say them (ModelConfig); null there: none.
struct Softcaps {
  bool has_keys = false;  // of files; false: there are none
  double scores = 0, logits = 0;
};

// The mixture of experts of a family: keys of config.json, and what counts where one is absent.
struct Mixture {
  enum class Shared : unsigned char {
    none,
    gated,    // shared_expert_intermediate_size wide; a number of x multiplies what it adds (Qwen2-MoE)
    sized,    // shared_intermediate_size wide, or 0 where there is none (Granite)
    counted,  // shared_key times as wide as an expert (GLM-4.5, DeepSeek)
  };
  enum class Sparse : unsigned char {
    all,           // every layer has experts
    stepped,       // every decoder_sparse_step-th but those of mlp_only_layers (Qwen)
    behind_first,  // from first_k_dense_replace on (GLM-4.5, DeepSeek)
    listed,        // mlp_layer_types says it, or else all but the first (GLM-4.7-Flash)
    spaced,        // every moe_layer_interval-th from moe_layer_start_index to moe_layer_end_index (ERNIE 4.5)
  };
  const char* count_key = nullptr;  // null: config.json has no experts
  FlagKey enabled = {nullptr, true};
  bool beside = false;         // the feed-forward, not in its place (ExpertsConfig)
  index count = 0, top_k = 0;  // 0: it must say
  const char* top_k_key = "num_experts_per_tok";
  const char* hidden_key = "moe_intermediate_size";
  index hidden = 0;  // 0: it must say
  MoeScore score = MoeScore::softmax;
  double jitter = 0;  // of sparsemixer
  const char* jitter_key = nullptr;
  FlagKey renormalize = {};
  bool biases = false;       // of the router and of experts
  bool interleaved = false;  // a checkpoint has [experts, in, out], and in it gate and up by turns (gpt-oss)
  bool choice_bias = false;
  bool in_groups = false;  // n_group, topk_group, routed_scaling_factor
  index groups = 1, groups_kept = 1;
  double scale = 1;
  bool by_method = false;  // there are groups where topk_method is group_limited_greedy (DeepSeek V2)
  Shared shared = Shared::none;
  index shared_hidden = 0;
  bool shared_is_dense = false;  // without experts the shared one is the feed-forward
  const char* shared_key = "n_shared_experts";
  index shared_count = 1;
  Sparse sparse = Sparse::all;
  index first_dense = 0;
  bool gguf = false;              // GGUF's architecture may have experts
  bool gguf_renormalize = false;  // and renormalizes where expert_weights_norm says nothing
};

// Of Gemma 4, whose layers differ by more than a window: those that see all keys have heads of their own
// (global_head_dim, num_global_key_value_heads, per_layer_config), and v is k in them where attention_k_eq_v says so;
// the last num_kv_shared_layers see the keys and values of the last ones of their kind before them, and are twice as
// wide if use_double_wide_mlp says so; and there may be inputs for each layer (LayerInputs).
struct LayerKinds {
  index full_head_dim = 0;  // 0: layers differ by no more than a window

  bool differ() const { return full_head_dim > 0; }
};

// Latent attention (LatentConfig), with the lengths that count where config.json has none.
struct Latent {
  index q_rank = 0, kv_rank = 0;  // kv_rank 0: attention is not latent
  index nope_dim = 0, rope_dim = 0;
  index value_dim = 0;  // 0: dim / heads
};

struct Family {
  using Pairing = RopeConfig::Pairing;
  using NormNames = std::array<std::string_view, 4>;

  std::string_view hf = {};    // model_type of config.json; empty: there is none
  std::string_view gguf = {};  // general.architecture; empty: there is none
  QkNorm qk_norm = QkNorm::none;
  FlagKey has_qk_norm = {nullptr, true};  // with a key: only where that says so
  Activation activation = Activation::silu;
  bool gated = true;
  const char* activation_key = "hidden_act";
  Pairing pairing = Pairing::half;       // in a checkpoint
  const char* pairing_key = nullptr;     // where a file may say false, and means half
  Pairing gguf_pairing = Pairing::half;  // in GGUF, whose writers permute q and k where it is another one
  // A layer's norms in a checkpoint, in the order of LayerNorms; empty: there is none.
  NormNames norm_names = {"input_layernorm", {}, "post_attention_layernorm", {}};
  NormKind norm = NormKind::rms;
  FlagKey norm_bias = {};
  bool norm_weights = true, embed_norm = false, v_norm = false;  // as ModelConfig has them
  bool layer_scales = false;                                     // a checkpoint has them
  bool norm_adds_one = false;                                    // a checkpoint has w where 1 + w multiplies
  bool gguf_rms_eps = false;                                     // GGUF calls the eps of layer norms that of RMS norms
  bool gguf_read_only = false;          // q, k and v are one tensor there, and gate and up, or a key has no fact here
  std::string_view gguf_ffn_norm = {};  // what GGUF calls the norm before the feed-forward; empty: ffn_norm

  // What config.json means where it says nothing, which is what transformers takes then.
  index context = 2048;
  index heads = 0, kv_heads = 0, vocab = 0;  // 0: it must say; kv_heads: heads
  index head_dim = 0;                        // 0: dim / heads
  double norm_eps = 1e-6, theta = 10000;
  const char* norm_eps_key = "rms_norm_eps";
  double partial_rotary = 0;   // the share of a head that turns; 0: all of it does, whatever the file says
  bool rotary_dim = false;     // a file may have a rotary_dim in place of a share
  bool plain_windows = false;  // no scaling touches the rope of layers with a window
  double local_theta = 0;      // theta of those; 0: that of the others
  bool yarn_truncates = true;  // where GGUF does not say it
  bool scaled = false;         // rope is scaled, in a way that the file must say
  bool turns_back = false;     // frequencies are negative
  bool temperature = false;    // q may grow beyond the original length (llama_4_scaling_beta), which is as far as we go
  bool ntk_alpha = false;      // the scaling called dynamic has an alpha that stretches theta once and for all
  bool tied = false;
  FlagKey qkv_bias = {"attention_bias"}, output_bias = {"attention_bias"}, mlp_bias = {"mlp_bias"};
  FlagKey head_bias = {}, parallel = {};
  bool sinks = false;
  Windows windows = Windows::none;
  index window = 0, period = 0, full_layers = 28;
  bool last_is_full = false;       // whatever the file says
  bool layers_are_listed = false;  // where the file lists none, they are none that are read
  Turning turning = Turning::all;
  Scales scales = Scales::none;
  // Gemma in GGUF, which does not say whose scores are scaled by (dim / heads)^-1/2: those of so many layers.
  index layers_of_largest = 0;
  Softcaps softcaps = {};
  Latent latent = {};
  LayerKinds kinds = {};
  Mixture mixture = {};
  bool more_layers = false;  // files may have layers behind the last, which draft tokens and compute no text

  // Keys of config.json, with spaces around, that its files have and that transformers does not read.
  std::string_view idle_keys = {};

  LayerNorms norms(bool in_parallel) const {
    const auto has = [&](std::size_t i) { return !norm_names[i].empty(); };
    return {has(0), has(1), has(2) && !in_parallel, has(3)};
  }
  // Does a layer turn q and k? `windowed`: it has a window; `any_window`: some layer has one.
  bool turns(std::size_t layer, bool windowed, bool any_window, index interval = 4) const {
    switch (turning) {
      case Turning::all: return true;
      case Turning::three_of_four: return (static_cast<index>(layer) + 1) % interval != 0;
      case Turning::windowed: return windowed || !any_window;
      case Turning::only_windowed: return windowed;
      case Turning::embedding_type: return true;
    }
    return true;
  }
};

// What groups of experts are scored by: DeepSeek V2's, of a softmax, by their best one, V3's and all others' by two.
inline MoeGroupScore moe_group_score(const ExpertsConfig& experts) {
  return experts.groups > 1 && experts.score == MoeScore::sigmoid ? MoeGroupScore::sum_of_two : MoeGroupScore::best;
}

// Rows that stand in files of their own.
std::span<const Family> layer_norm_families();
std::span<const Family> mixture_families();
std::span<const Family> latent_families();

// The row of a name; null where there is none.
const Family* family_of_hf(std::string_view model_type);
const Family* family_of_gguf(std::string_view architecture);
const Family* family_of(std::string_view either);

// The names of all rows, for messages: "a, b or c".
std::string known_families(std::string_view Family::*name);

}  // namespace inlay::exec
