// How Weights come about, wherever the numbers are from: every tensor of the model is asked for once and put in its
// place.
#pragma once

#include <functional>

#include <inlay/model/model_tensors.hpp>
#include <inlay/model/rank_cut.hpp>
#include <inlay/model/weights.hpp>

namespace inlay::exec {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual Expected<LinearWeight> linear(const TensorFacts& tensor) = 0;
  // f32, in memory that `weights` or the file keeps.
  virtual Expected<ConstView<1>> vector(const TensorFacts& tensor, Weights& weights) = 0;
  // In such memory too.
  virtual Expected<EmbeddingTable> embedding(const TensorFacts& tensor, Weights& weights) = 0;
};

// `config`: the whole model's, also for one rank of several. `progress(done, layers)` after each layer.
Expected<Weights> weights_from(WeightSource& source, const ModelConfig& config,
                               const std::function<void(index, index)>& progress, const RankCut& cut);

}  // namespace inlay::exec
