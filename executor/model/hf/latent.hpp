// Latent attention in config.json.
#pragma once

#include <string>
#include <string_view>

#include <inlay/model/model_config.hpp>

#include "executor/model/family.hpp"
#include "executor/model/json/file.hpp"

namespace inlay::exec {

// Is it one of the keys that are read of such families?
bool is_hf_latent_key(std::string_view key, const Latent& latent);

// Fills config.latent and config.head_dim; those of a family without latent attention are left alone.
Status read_hf_latent(const Json& json, const std::string& origin, const Latent& latent, ModelConfig& config);

}  // namespace inlay::exec
