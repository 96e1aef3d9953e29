// The rotary embeddings in config.json: `rope_parameters` in newer files, `rope_scaling` and `rope_theta` in older
// ones.
#pragma once

#include <string>

#include <inlay/model/model_config.hpp>

#include "executor/model/family.hpp"
#include "executor/model/json/file.hpp"

namespace inlay::exec {

// Which kinds of layers a model has.
struct HfLayerKinds {
  bool full = false, sliding = false;
  index full_head_dim = 0, sliding_head_dim = 0;  // the largest
};

// Fills config.ropes: that of all layers, or first that of full ones and then that of sliding ones.
Status read_hf_rope(const Json& json, const std::string& origin, const Family& family, HfLayerKinds kinds,
                    ModelConfig& config);

}  // namespace inlay::exec
