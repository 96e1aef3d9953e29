// The sizes of a decoder model and what sets its architecture apart, whatever file they came from.
//
// Most models are alike in all layers: `hidden`, `sliding_window` and `rope.theta` say it once. Where layers differ
// (windows in some, a wider feed-forward in the middle), `per_layer` has an entry for each, and `hidden` and
// `sliding_window` are the widest of them. Whoever computes asks layer(i), which knows both.
#pragma once

#include <string>
#include <vector>

#include <inlay/core/view.hpp>

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

  bool operator==(const RopeConfig&) const = default;
};

// What one layer may have of its own.
struct LayerConfig {
  index hidden = 0;  // width of the feed-forward
  index window = 0;  // keys seen back from a query, itself included; 0: all
  double rope_theta = 10000;

  bool operator==(const LayerConfig&) const = default;
};

struct ModelConfig {
  std::string architecture = {};  // "llama" "mistral" "qwen2" "qwen3" "internlm2"
  std::string name = {};
  index layers = 0, dim = 0, heads = 0, kv_heads = 0, head_dim = 0, hidden = 0, vocab = 0, context = 0;
  index sliding_window = 0;  // as LayerConfig::window
  double rms_eps = 1e-5;
  RopeConfig rope = {};
  bool tie_embeddings = false;  // there is no output.weight: token_embd.weight is the head
  bool qkv_bias = false;        // attn_q.bias, attn_k.bias, attn_v.bias
  bool output_bias = false;     // attn_output.bias
  bool qk_norm = false;         // attn_q_norm.weight, attn_k_norm.weight of [head_dim]

  std::vector<LayerConfig> per_layer = {};  // [layers], or empty: all layers are alike

  LayerConfig layer(index i) const {
    return per_layer.empty() ? LayerConfig{hidden, sliding_window, rope.theta} : per_layer[static_cast<std::size_t>(i)];
  }
  // One entry for each layer. Where all turn out to be alike, `per_layer` stays empty.
  void set_layers(std::vector<LayerConfig> each);
};

}  // namespace inlay::exec
