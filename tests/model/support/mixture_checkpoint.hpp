// What files of tiny mixtures of experts have in common: three experts, and in checkpoints one layer.
#pragma once

#include <vector>

#include <inlay/model/load.hpp>

#include "tests/model/support/checkpoint.hpp"
#include "tests/support/files.hpp"

namespace inlay::exec::test {

inline constexpr index experts = 3, dim = 32, hidden = 32;
inline constexpr const char* layer = "model.layers.0.";

inline std::vector<bool> sparse_layers(const ModelConfig& config) {
  std::vector<bool> all;
  for (index i = 0; i < config.layers; ++i) all.push_back(config.layer(i).sparse);
  return all;
}

inline Expected<ModelFile> load_checkpoint(const TemporaryDirectory& d, const Shard& shard, const Json& config) {
  write_text(d / "config.json", config.dump());
  write_text(d / "model.safetensors", shard.bytes());
  return load_model(d.string());
}

}  // namespace inlay::exec::test
