// config.json of a Hugging Face checkpoint. Keys that are absent have transformers' defaults.
#pragma once

#include <string>

#include <inlay/model/model_config.hpp>

#include "executor/model/json/file.hpp"

namespace inlay::exec {

Expected<ModelConfig> hf_config(const Json& config, const std::string& origin);

}  // namespace inlay::exec
