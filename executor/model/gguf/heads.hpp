// The heads of layers that differ by kind, in GGUF (`gemma4`): keys for all layers and for those with a window, an
// array of kv heads, and how many of the last layers see the keys and values of others.
#pragma once

#include <string>
#include <vector>

#include <inlay/model/model_config.hpp>

#include "executor/model/gguf/metadata.hpp"
#include "executor/model/gguf/writer.hpp"

namespace inlay::exec {

// Fills the heads of `layers`, whose windows are known, and the inputs of layers. `config.head_dim` is that of layers
// without a window.
void read_gguf_heads(const GgufFile& file, GgufMetadata& meta, const std::string& arch, ModelConfig& config,
                     std::vector<LayerConfig>& layers);

// Refused is what the keys cannot say: `origin` names the model in messages.
Status write_gguf_heads(const ModelConfig& config, const std::string& arch, const std::string& origin,
                        GgufWriter& writer);

}  // namespace inlay::exec
