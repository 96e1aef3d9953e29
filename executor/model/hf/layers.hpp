// What config.json says of layers that may differ: their widths, windows, heads and ropes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <inlay/model/model_config.hpp>

#include "executor/model/family.hpp"
#include "executor/model/json/file.hpp"

namespace inlay::exec {

// Fills the layers and the ropes of `config`, whose sizes are known.
Status read_hf_layers(const Json& json, const std::string& origin, const Family& family, ModelConfig& config);

// Of a family whose kinds of layers differ (LayerKinds): keys, and the heads of layers whose windows are known.
bool is_hf_kinds_key(std::string_view key, const LayerKinds& kinds);
Status read_hf_heads(const Json& json, const std::string& origin, const LayerKinds& kinds, ModelConfig& config,
                     std::vector<LayerConfig>& layers);

}  // namespace inlay::exec
