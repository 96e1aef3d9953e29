// Mixtures of experts in Hugging Face checkpoints: their keys, and whose tensor each is.
//
//   mlp.experts.3.gate_proj.weight         [hidden, dim], of each expert (Mixtral: block_sparse_moe, w1 w3 w2)
//   mlp.experts.gate_up_proj               [experts, 2 hidden, dim], of all, gate before up
//   block_sparse_moe.input_linear.weight   the same in Granite; output_linear is down
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <inlay/model/model_file.hpp>

#include "executor/model/expert_tensors.hpp"
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

// Whose tensor it is, where it is one of experts.
bool take_hf_expert(std::string_view name, ExpertTensors::Place& place);

}  // namespace inlay::exec
