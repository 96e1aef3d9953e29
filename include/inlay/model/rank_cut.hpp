// Ranks that compute one model together. By columns each has some output channels of every linear. No sum is cut, so
// that all ranks together compute the bits of one.
//
//   q k v       whole heads of k and v, and the heads of q that share them: a rank attends by itself
//   gate up     panels of channels: a rank activates by itself
//   output down head       panels of channels, of an x of which each rank has a part
//
// What one rank has of such an x, or of their y, the others are given (AllGather): four times a layer.
//
// By rows (Megatron: Shoeybi et al., 2019) output and down have all channels, of the inputs that the rank has anyway:
// each y is a part of a sum, which all are given (AllSum), twice a layer. Each number of ranks has bits of its own.
#pragma once

#include <optional>
#include <utility>

#include <inlay/model/linear_weight.hpp>
#include <inlay/model/model_tensors.hpp>

namespace inlay::exec {

class RankCut {
 public:
  enum class By : unsigned char { columns, rows };

  RankCut() = default;  // one rank, which has all
  // Refused where a rank would have nothing, and for models whose attention or feed-forward knows no such parts.
  static Expected<RankCut> make(const ModelConfig& config, int rank, int size, By by = By::columns);

  // The model as this rank's operators see it: with its own heads, and a feed-forward as wide as its own channels.
  ModelConfig config() const;

  // This rank's rows of a tensor; nothing where each rank has all of it.
  struct Rows {
    index first, count;
  };
  std::optional<Rows> own_rows(const TensorFacts& tensor) const;
  // This rank's weight, of one that is whole or has its own rows alone; and of a whole vector, where it lies. Of a sum
  // rank 0 alone has the bias. Inputs of codes are refused where they cannot be cut.
  Expected<LinearWeight> own(const TensorFacts& tensor, LinearWeight weight) const;
  ConstView<1> own(const TensorFacts& tensor, const ConstView<1>& vector) const;

 private:
  RankCut(ModelConfig config, int rank, int size, By by)
      : config_(std::move(config)), rank_(rank), size_(size), by_(by) {}

  std::optional<RankShares> shares(const TensorFacts& tensor) const;
  RankShares of_hidden(index hidden) const;
  // The inputs of output and down; nothing of any other.
  std::optional<RankShares> inputs(const TensorFacts& tensor) const;
  bool sums(Part part) const;
  index heads_of_group() const { return config_.heads / config_.kv_heads; }

  ModelConfig config_;  // the whole model's
  int rank_ = 0, size_ = 1;
  By by_ = By::columns;
};

}  // namespace inlay::exec
