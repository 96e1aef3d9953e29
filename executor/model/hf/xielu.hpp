// The numbers of xIELU (Xielu) in Hugging Face checkpoints, which are tensors of one element:
//
//   mlp.act_fn.alpha_p   mlp.act_fn.alpha_n   mlp.act_fn.beta   mlp.act_fn.eps
//
// Older checkpoints have only the first two, which are learned: the others are 0.5 and -1e-6 then.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

class HfXielu {
 public:
  // Is it one of theirs? Then it is kept.
  Expected<bool> take(const std::string& path, std::string_view name, const WeightTensor& tensor);
  // Into the layers of a configuration whose activation it is.
  Status apply(const std::string& origin, ModelConfig& config) const;

 private:
  std::map<index, std::map<std::string, double>> layers_;  // by layer, by what follows "mlp.act_fn."
};

}  // namespace inlay::exec
