// Experts as gpt-oss stores them: of all in one tensor, the rows of gate and up by turns, as floats or in blocks of
// MXFP4 (OCP Microscaling Formats, 2023).
//
//   gate_up_proj         [experts, dim, 2 hidden]           floats, columns gate 0, up 0, gate 1, up 1 ..
//   gate_up_proj_blocks  [experts, 2 hidden, dim / 32, 16]  bytes of two codes, the first in the low bits; and
//   gate_up_proj_scales  [experts, 2 hidden, dim / 32]      powers of two, less 127
//   gate_up_proj_bias    [experts, 2 hidden]
//   down_proj ..         the same of one matrix
//
// They become ffn_gate_exps, ffn_up_exps and ffn_down_exps, in memory of their own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <inlay/model/model_file.hpp>

#include "executor/model/hf/safetensors.hpp"

namespace inlay::exec {

class HfInterleavedExperts {
 public:
  HfInterleavedExperts() = default;
  explicit HfInterleavedExperts(const ModelConfig& config)
      : experts_(config.experts.count), dim_(config.dim), hidden_(config.experts.hidden) {}

  // Is it one of theirs? Then it is kept.
  bool take(const std::string& name, const SafetensorsFile& file, const SafetensorsFile::Raw& tensor);
  Expected<std::vector<WeightTensor>> tensors(std::vector<std::shared_ptr<const Mapping>>& memory) const;

 private:
  struct Part {
    SafetensorsFile::Raw tensor;
    std::string path, name;
  };
  using Layer = std::map<std::string, Part>;  // by what follows "mlp.experts."
  // One matrix of a stem: n outputs of k inputs, every `turns`-th row of the stem's from `first` on.
  struct Matrix {
    std::string stem, part;
    index n, k, first, turns;
  };
  using Memory = std::vector<std::shared_ptr<const Mapping>>;

  Expected<WeightTensor> weight(const Layer& layer, const Matrix& matrix, Memory& memory) const;
  Expected<WeightTensor> of_floats(const Part& part, const Matrix& matrix, Memory& memory) const;
  Expected<WeightTensor> of_blocks(const Part& blocks, const Part& scales, const Matrix& matrix, Memory& memory) const;
  Expected<WeightTensor> bias(const Part& part, const Matrix& matrix, Memory& memory) const;

  index experts_ = 0, dim_ = 0, hidden_ = 0;
  std::map<index, Layer> layers_;
  std::string twice_;  // what there is to say of a tensor that is there twice; empty: none is
};

}  // namespace inlay::exec
