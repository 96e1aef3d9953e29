// The sizes of a decoder model and what sets its architecture apart, whatever file they came from. A family of models
// is a row of such facts (executor/model/family.cpp): nothing else of the executor knows a family's name.
//
// Most models are alike in all layers: `hidden`, `head_dim`, `kv_heads`, `sliding_window` and `ropes[0]` say it once.
// Where layers differ (windows in some, a wider feed-forward in the middle), `per_layer` has an entry for each, and the
// numbers of the model are the largest of them. Whoever computes asks layer(i), which knows both.
#pragma once

#include <string>
#include <vector>

#include <inlay/core/view.hpp>
#include <inlay/ops/moe_routing.hpp>

namespace inlay::exec {

struct RopeConfig {
  // Which elements of a head turn together: (2i, 2i + 1) or (i, i + dim / 2).
  enum class Pairing { interleaved, half };
  enum class Scaling {
    none,
    linear,        // position / factor
    yarn,          // factor, original_context, beta_fast, beta_slow, truncate
    llama3,        // factor, original_context, low_freq_factor, high_freq_factor
    freq_factors,  // frequency i is divided by freq_factors[i]
    longrope,      // the same, and by long_factors[i] in a session of more than original_context tokens
  };
  Pairing pairing = Pairing::half;
  index dim = 0;  // the first `dim` elements of each head turn
  double theta = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;
  index original_context = 0;
  double low_freq_factor = 1, high_freq_factor = 4;
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;                  // yarn: the ramp's ends are whole pairs
  double attention_factor = 1;           // multiplies cos and sin; already 0.1 ln(factor) + 1 for plain YaRN
  std::vector<float> freq_factors = {};  // [dim / 2], also filled for llama3 (the same thing in numbers)
  std::vector<float> long_factors = {};  // [dim / 2] of longrope

  bool operator==(const RopeConfig&) const = default;
};

// What a layer's xIELU (Gelu's form) has learned, as files have it: softplus(alpha_p) and beta + softplus(alpha_n)
// multiply.
struct Xielu {
  double alpha_p = 0, alpha_n = 0, beta = 0, eps = 0;

  bool operator==(const Xielu&) const = default;
};

// What one layer may have of its own.
struct LayerConfig {
  static constexpr int no_rope = -1;
  static constexpr index own_kv = -1;

  index hidden = 0;     // width of the feed-forward
  index window = 0;     // keys seen back from a query, itself included; 0: all
  int rope = 0;         // which of ModelConfig::ropes turns q and k, or no_rope
  bool sparse = false;  // experts stand in place of the feed-forward, or beside it (ExpertsConfig)
  Xielu xielu = {};
  index kv_heads = 0, head_dim = 0;  // 0: those of the model
  index kv_layer = own_kv;           // the layer before this one whose keys and values it attends to
  bool v_is_k = false;               // there is no attn_v: v is what k is before its norm and its rope

  bool operator==(const LayerConfig&) const = default;
};

// The mixture of experts that sparse layers have; of the layer's x
//
//   y = sum over the token's top_k experts of  weight * expert(x), and of all tokens  gate * shared(x)
//
// where routing is the operator moe_routing, of logits ffn_gate_inp(x).
struct ExpertsConfig {
  index count = 0;           // 0: no layer has experts
  index top_k = 0;           // of a token
  index hidden = 0;          // width of one
  index shared_hidden = 0;   // width of the expert that all tokens have; 0: there is none
  bool shared_gate = false;  // sigmoid(ffn_gate_inp_shexp . x) multiplies what it adds; else 1
  bool biases = false;       // ffn_gate_inp.bias, ffn_gate_exps.bias, ffn_up_exps.bias, ffn_down_exps.bias
  bool choice_bias = false;  // exp_probs_b.bias
  MoeScore score = MoeScore::softmax;
  index groups = 1, groups_kept = 1;
  MoeGroupScore group_score = MoeGroupScore::best;
  bool renormalize = false;
  double scale = 1;
  double jitter = 0;  // of sparsemixer
  // They stand beside the feed-forward (Gemma 4), each with norms of its own; of the stream s that both read
  //
  //   y = post_ffw_norm_1(feed_forward(ffn_norm(s))) + post_ffw_norm_2(sum of weight * expert(pre_ffw_norm_2(s)))
  //
  // Logits are ffn_gate_inp(rms_norm(s) * ffn_gate_inp.scale / sqrt(dim)), and an expert's weight is multiplied by
  // its ffn_down_exps.scale.
  bool beside = false;

  bool operator==(const ExpertsConfig&) const = default;
};

// Multi-head latent attention (DeepSeek V2): keys and values of all heads are made of one short vector of a token.
//
//   q of all heads          attn_q_b(norm(attn_q_a(x))), or attn_q(x)
//   c | r                   attn_kv_a_mqa(x)
//   k | v of each head      attn_kv_b(norm(c)); behind each k stands r, the same for all heads
//
// Rope turns r and the last rope_dim elements of each q. ModelConfig::head_dim is the length of q, and of k with its r.
struct LatentConfig {
  index kv_rank = 0;  // of c; 0: attention has no latent vectors
  index q_rank = 0;   // 0: attn_q reads x
  index rope_dim = 0;
  index value_dim = 0;     // of a head
  double norm_eps = 1e-6;  // of attn_q_a_norm and attn_kv_a_norm

  bool operator==(const LatentConfig&) const = default;
};

// What a layer of Gemma 3n and 4 is given of the token itself, behind its feed-forward:
//
//   e of all layers   (embedding of the token * sqrt(dim) + norm(per_layer_model_proj(x))) / sqrt(2)
//   x = x + post_norm(proj(act(inp_gate(x)) * e of the layer))
//
// with per_layer_token_embd and per_layer_proj_norm; x of the first line is the stream before the first layer.
struct LayerInputs {
  index dim = 0;  // of one layer's; 0: layers are given nothing

  bool operator==(const LayerInputs&) const = default;
};

// What all norms of the stream are: RMS norms, or layer norms, which take the mean off and may have a bias.
enum class NormKind : unsigned char { rms, layer };

// Norms of a layer: of what a branch reads, and of what it adds to the stream.
//
//   x = x + behind_attn(attention(before_attn(x)))
//   x = x + behind_ffn(feed_forward(before_ffn(x)))
//
// A parallel block has one norm, which both branches read:
//
//   x = x + attention(before_attn(x)) + feed_forward(before_attn(x))
struct LayerNorms {
  bool before_attn = true, behind_attn = false, before_ffn = true, behind_ffn = false;

  bool operator==(const LayerNorms&) const = default;
};

// Norms of q and k: of each head by the same weights, of all heads as one row, of each head when it has turned, and of
// each head by weights of its own. The last are layer norms, as those of the stream, the others RMS norms.
enum class QkNorm : unsigned char { none, head, row, head_behind_rope, each_head };

// What the gate of the feed-forward goes through, or where there is none all of it:
//
//   gated    down(act(gate(x)) * up(x))
//   else     down(act(up(x)))
//
// clipped_swiglu, which has a gate, is gpt-oss's: min(g, 7) sigmoid(1.702 min(g, 7)) (max(-7, min(u, 7)) + 1).
enum class Activation : unsigned char { silu, gelu, gelu_tanh, relu_squared, clipped_swiglu, xielu };

struct ModelConfig {
  std::string architecture = {};  // as Hugging Face's model_type, or GGUF's general.architecture, has it
  std::string name = {};
  index layers = 0, dim = 0, heads = 0, kv_heads = 0, head_dim = 0, hidden = 0, vocab = 0, context = 0;
  index sliding_window = 0;  // as LayerConfig::window
  double norm_eps = 1e-5;
  std::vector<RopeConfig> ropes = {RopeConfig{}};
  bool tie_embeddings = false;  // there is no output.weight: token_embd.weight is the head
  bool qkv_bias = false;        // attn_q.bias, attn_k.bias, attn_v.bias
  bool output_bias = false;     // attn_output.bias
  bool mlp_bias = false;        // ffn_gate.bias, ffn_up.bias, ffn_down.bias, and those of a shared expert
  bool head_bias = false;       // output.bias
  bool sinks = false;           // attn_sinks.weight: a score of each head that has no value
  NormKind norm = NormKind::rms;
  bool norm_bias = false;  // attn_norm.bias, ffn_norm.bias, output_norm.bias
  bool norm_weights = true;
  bool embed_norm = false;  // the embedding goes through an RMS norm without weights,
  bool v_norm = false;      // and so does each head of v
  LayerNorms norms = {};
  bool parallel = false;
  QkNorm qk_norm = QkNorm::none;  // attn_q_norm.weight, attn_k_norm.weight
  Activation activation = Activation::silu;
  bool gated = true;          // ffn_gate.weight
  double embed_scale = 1;     // the stream begins with embed_scale * embedding
  double residual_scale = 1;  // and each branch adds residual_scale times itself
  double logit_scale = 1;     // logits = logit_scale * head(x)
  double attn_scale = 0;      // scores = attn_scale * q . k; 0: 1 / sqrt(head_dim)
  double attn_softcap = 0;    // scores = attn_softcap * tanh(scores / attn_softcap); 0: as they are
  double final_softcap = 0;   // the same of logits
  bool layer_scales = false;  // layer_output_scale.weight: one number multiplies the stream behind each layer
  LayerInputs layer_inputs = {};

  ExpertsConfig experts = {};
  LatentConfig latent = {};
  std::vector<LayerConfig> per_layer = {};  // [layers], or empty: all layers are alike

  bool is_latent() const { return latent.kv_rank > 0; }
  // Of a head: of that layer, or the largest.
  index value_dim(const LayerConfig& layer) const { return is_latent() ? latent.value_dim : layer.head_dim; }
  index value_dim() const { return is_latent() ? latent.value_dim : head_dim; }
  LayerConfig layer(index i) const {
    LayerConfig of = per_layer.empty()
                         ? LayerConfig{.hidden = hidden, .window = sliding_window, .sparse = experts.count > 0}
                         : per_layer[static_cast<std::size_t>(i)];
    if (of.kv_heads == 0) of.kv_heads = kv_heads;
    if (of.head_dim == 0) of.head_dim = head_dim;
    return of;
  }
  // One entry for each layer. Where all turn out to be alike, `per_layer` stays empty and the rope they share is the
  // only one; ropes and experts that no layer has are forgotten.
  void set_layers(std::vector<LayerConfig> each);
};

}  // namespace inlay::exec
