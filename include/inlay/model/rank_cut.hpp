// Ranks that compute one model together: each has some output channels of every linear. No sum is cut, so that all
// ranks together compute the bits of one.
//
//   q k v       whole heads of k and v, and the heads of q that share them: a rank attends by itself
//   gate up     panels of channels: a rank activates by itself
//   output down head       panels of channels, of an x of which each rank has a part
//
// What one rank has of such an x, or of their y, the others are given (AllGather): four times a layer.
#pragma once

#include <optional>
#include <utility>

#include <inlay/model/linear_weight.hpp>
#include <inlay/model/model_tensors.hpp>

namespace inlay::exec {

class RankCut {
 public:
  RankCut() = default;  // one rank, which has all
  // Refused where a rank would have nothing, and for models whose attention or feed-forward knows no such parts.
  static Expected<RankCut> make(const ModelConfig& config, int rank, int size);

  // The model as this rank's operators see it: with its own heads, and a feed-forward as wide as its own channels.
  ModelConfig config() const;

  // This rank's rows of a tensor; nothing where each rank has all of it.
  struct Rows {
    index first, count;
  };
  std::optional<Rows> own_rows(const TensorFacts& tensor) const;
  // This rank's weight, of one that is whole or has its own rows alone; and of a whole vector, where it lies.
  Expected<LinearWeight> own(const TensorFacts& tensor, LinearWeight weight) const;
  ConstView<1> own(const TensorFacts& tensor, const ConstView<1>& vector) const;

 private:
  RankCut(ModelConfig config, int rank, int size) : config_(std::move(config)), rank_(rank), size_(size) {}

  std::optional<RankShares> shares(const TensorFacts& tensor) const;
  index heads_of_group() const { return config_.heads / config_.kv_heads; }

  ModelConfig config_;  // the whole model's
  int rank_ = 0, size_ = 1;
};

}  // namespace inlay::exec
