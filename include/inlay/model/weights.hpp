// The weights of a decoder model, packed for the operators. Norms, biases and the embedding table are
// used where the file has them; linears are packed and their pages in the file given back. Those of one
// x are joined (fused_linears.hpp), and their biases copied for that.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include <inlay/model/linear_weight.hpp>
#include <inlay/model/rank_cut.hpp>

namespace inlay::exec {

// A table that ids choose rows of: elements, or blocks of `format`.
struct EmbeddingTable {
  ConstView<2> rows = {};       // [vocab, dim], or bytes of blocks
  ConstView<1> row_scale = {};  // [vocab] of an int8 table
  GgmlType format = GgmlType::F32;
};

// Linears of one x, whose outputs lie side by side: several, or the one that joined() made of them.
using FusedLinears = std::vector<LinearWeight>;

// What a sparse layer has in place of gate_up and down (ExpertsConfig).
struct MixtureWeights {
  LinearWeight router;            // [experts, dim], floats
  ConstView<1> choice_bias = {};  // [experts]
  LinearWeight gate, up, down;    // of all experts
  FusedLinears shared_gate_up;    // of the shared expert, as LayerWeights::gate_up
  LinearWeight shared_down;
  ConstView<1> shared_router = {};  // [dim]
  // Of experts beside the feed-forward (ExpertsConfig): [dim], divided by sqrt(dim); [experts]; [dim].
  ConstView<1> router_scale = {}, scales = {};
  ConstView<1> norm = {}, dense_post_norm = {}, post_norm = {};
};

// What a layer does with the inputs that are its own (LayerInputs).
struct LayerInputWeights {
  LinearWeight gate, projection;
  ConstView<1> post_norm = {};  // [dim]
};

// What latent attention has behind the fused first linears (LatentConfig).
struct LatentWeights {
  LinearWeight q_b, kv_b;
  ConstView<1> q_norm = {}, kv_norm = {};  // [q_rank], [kv_rank]
};

struct LayerWeights {
  // [dim], each where the configuration has that norm.
  ConstView<1> attn_norm = {}, attn_post_norm = {}, ffn_norm = {}, ffn_post_norm = {};
  ConstView<1> attn_norm_bias = {}, ffn_norm_bias = {};
  ConstView<1> q_norm = {}, k_norm = {};  // [head_dim], or the whole row of q or k (QkNorm)
  ConstView<1> sinks = {};                // [heads]
  FusedLinears qkv, gate_up;  // q | k | v, with biases inside (Qwen2), or q_a (q) | kv_a; gate | up, or up alone
  LinearWeight output, down;
  LatentWeights latent;
  MixtureWeights mixture;
  LayerInputWeights input;
  float scale = 1;  // of the stream behind the layer
};

struct Weights {
  EmbeddingTable embedding;
  EmbeddingTable layer_inputs;           // of all layers side by side
  LinearWeight layer_inputs_projection;  // [layers * dim of one, dim]
  ConstView<1> layer_inputs_norm = {};   // [dim of one], divided by sqrt(2)
  std::vector<LayerWeights> layers;
  ConstView<1> output_norm, output_norm_bias;  // [dim], times the scale of the logits
  LinearWeight head;                           // [vocab, dim]
  ConstView<1> ones = {};                      // as long as a norm without weights needs
  std::size_t linear_bytes = 0;                // what one token reads of the linears

  // Vectors that had to be widened to f32 or joined, and what keeps the file mapped.
  std::vector<OwnedTensor<1>> vectors;
  std::vector<OwnedTensor<2>> tables;
  std::shared_ptr<const ModelFile> file;

  // Floats, or codes and int8.
  bool all_linears_are(bool floats) const {
    if (layer_inputs_projection.channels() != 0 && layer_inputs_projection.is_float() != floats) return false;
    return head.is_float() == floats && std::all_of(layers.begin(), layers.end(), [&](const LayerWeights& w) {
             const auto are = [&](const LinearWeight& each) {
               return each.channels() == 0 || each.is_float() == floats;  // 0: the layer has none
             };
             const MixtureWeights& m = w.mixture;
             return std::all_of(w.qkv.begin(), w.qkv.end(), are) && are(w.output) && are(w.latent.q_b) &&
                    are(w.latent.kv_b) && are(w.input.gate) && are(w.input.projection) &&
                    std::all_of(w.gate_up.begin(), w.gate_up.end(), are) && are(w.down) && are(m.gate) && are(m.up) &&
                    are(m.down) && std::all_of(m.shared_gate_up.begin(), m.shared_gate_up.end(), are) &&
                    are(m.shared_down);
           });
  }
};

// `progress(done, layers)` is called after each layer. Of one rank of several: what `cut` says is its own.
Expected<Weights> load_weights(
    std::shared_ptr<const ModelFile> file, const Parallel& parallel,
    const std::function<void(index, index)>& progress = [](index, index) {}, const RankCut& cut = {});

}  // namespace inlay::exec
