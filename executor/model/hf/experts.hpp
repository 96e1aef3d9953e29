// Mixtures of experts in Hugging Face checkpoints: their keys, and their tensors put together.
//
//   mlp.experts.3.gate_proj.weight         [hidden, dim], a tensor for each expert (Mixtral: block_sparse_moe, w1 w3
//   w2) mlp.experts.gate_up_proj               [experts, 2 hidden, dim], of all, gate before up
//   block_sparse_moe.input_linear.weight   the same in Granite; output_linear is down
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/model/model_file.hpp>

#include "executor/model/family.hpp"
#include "executor/model/json/file.hpp"

namespace inlay::exec {

bool is_hf_experts_key(std::string_view key, const Mixture& mixture);
// Does a key that nobody reads say what the family does anyway? DeepSeek's words for routing, in others' files.
bool is_idle_hf_experts_key(std::string_view key, const Json& value, const Mixture& mixture);

// Fills config.experts; that of a family without any is left alone.
Status read_hf_experts(const Json& json, const std::string& origin, const Mixture& mixture, ModelConfig& config);
// Which layers have them.
Status read_hf_sparse(const Json& json, const std::string& origin, const Mixture& mixture, const ModelConfig& config,
                      std::vector<LayerConfig>& layers);

// The tensors of experts, gathered over the shards: of each layer and part one [experts, n, k].
class HfExperts {
 public:
  explicit HfExperts(const ExpertsConfig& config) : config_(config) {}

  // Is it one of theirs? Then it is kept, or refused.
  Expected<bool> take(const std::string& path, const std::string& name, const WeightTensor& tensor);
  Expected<std::vector<WeightTensor>> tensors(const std::string& origin) const;

 private:
  struct Place {
    index layer = 0, expert = -1;  // -1: of all
    std::string part;              // "ffn_gate_exps", or "ffn_gate_up_exps" where two lie in one
  };
  static bool place_of(std::string_view name, Place& place);
  // What one tensor has of all experts.
  Status put_stacked(const std::string& path, const std::string& name, const Place& place, const WeightTensor& tensor);
  Status put(const std::string& path, const std::string& name, const Place& place, const WeightTensor& matrix);

  using Key = std::pair<index, std::string>;  // layer and part
  ExpertsConfig config_;
  std::map<Key, std::map<index, WeightTensor>> parts_;  // by expert
  std::map<Key, WeightTensor> stacked_;
};

}  // namespace inlay::exec
