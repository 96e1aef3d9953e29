// What config.json says of layers that may differ: their widths, windows and ropes.
#pragma once

#include <string>

#include <inlay/model/model_config.hpp>

#include "executor/model/family.hpp"
#include "executor/model/json/file.hpp"

namespace inlay::exec {

// Fills the layers and the ropes of `config`, whose sizes are known.
Status read_hf_layers(const Json& json, const std::string& origin, const Family& family, ModelConfig& config);

}  // namespace inlay::exec
