// Norms of the heads of q and k that have a tensor each (StableLM), put together: of each layer one vector of all
// heads.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

class HfHeadNorms {
 public:
  HfHeadNorms() = default;
  explicit HfHeadNorms(const ModelConfig& config) : config_(config) {}

  // Is it one of theirs? Then it is kept, or refused.
  Expected<bool> take(const std::string& path, std::string_view name, const WeightTensor& tensor);
  Expected<std::vector<WeightTensor>> tensors(const std::string& origin,
                                              std::vector<std::shared_ptr<const Mapping>>& memory) const;

 private:
  ModelConfig config_;
  std::map<std::string, std::map<index, WeightTensor>> norms_;  // by the name of the whole, by head
};

}  // namespace inlay::exec
