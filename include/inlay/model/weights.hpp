// The weights of a decoder model, packed for the operators. Norms, biases and the embedding table are
// used where the file has them; linears are packed and their pages in the file given back.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include <inlay/model/linear_weight.hpp>
#include <inlay/weights/rope_frequencies.hpp>

namespace inlay::exec {

struct LayerWeights {
  ConstView<1> attn_norm, ffn_norm;       // [dim]
  ConstView<1> q_norm = {}, k_norm = {};  // [head_dim]; Qwen3
  LinearWeight q, k, v, output;           // biases inside; Qwen2
  LinearWeight gate, up, down;
  std::size_t rope = 0;  // which of Weights::ropes turns this layer
};

struct Weights {
  ConstView<2> embedding;             // [vocab, dim], or rows of blocks with `format`
  ConstView<1> embedding_scale = {};  // [vocab] of an int8 table
  GgmlType embedding_format = GgmlType::F32;
  std::vector<LayerWeights> layers;
  ConstView<1> output_norm;            // [dim]
  LinearWeight head;                   // [vocab, dim]
  std::vector<RopeFrequencies> ropes;  // one for each theta of the model
  std::size_t linear_bytes = 0;        // what one token reads of the linears

  // Vectors that had to be widened to f32, and what keeps the file mapped.
  std::vector<OwnedTensor<1>> vectors;
  std::vector<OwnedTensor<2>> tables;
  std::shared_ptr<const ModelFile> file;

  // Floats, or codes and int8.
  bool all_linears_are(bool floats) const {
    return head.is_float() == floats && std::all_of(layers.begin(), layers.end(), [&](const LayerWeights& w) {
             const LinearWeight* all[] = {&w.q, &w.k, &w.v, &w.output, &w.gate, &w.up, &w.down};
             return std::all_of(std::begin(all), std::end(all),
                                [&](const auto* each) { return each->is_float() == floats; });
           });
  }
};

// `progress(done, layers)` is called after each layer.
Expected<Weights> load_weights(
    std::shared_ptr<const ModelFile> file, const Parallel& parallel,
    const std::function<void(index, index)>& progress = [](index, index) {});

}  // namespace inlay::exec
