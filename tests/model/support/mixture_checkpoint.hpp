// What checkpoints of tiny mixtures of experts have in common: one layer, of three experts.
#pragma once

#include <inlay/model/load.hpp>

#include "tests/model/support/checkpoint.hpp"
#include "tests/support/files.hpp"

namespace inlay::exec::test {

inline constexpr index experts = 3, dim = 32, hidden = 32;
inline constexpr const char* layer = "model.layers.0.";

inline Expected<ModelFile> load_checkpoint(const TemporaryDirectory& d, const Shard& shard, const Json& config) {
  write_text(d / "config.json", config.dump());
  write_text(d / "model.safetensors", shard.bytes());
  return load_model(d.string());
}

}  // namespace inlay::exec::test
