// Mixtures of experts in GGUF's metadata, read and written.
#pragma once

#include <string>

#include <inlay/model/model_config.hpp>

#include "executor/model/family.hpp"
#include "executor/model/gguf/metadata.hpp"
#include "executor/model/gguf/writer.hpp"

namespace inlay::exec {

// Fills config.experts where the file has any.
void read_gguf_experts(GgufMetadata& meta, const std::string& arch, const Mixture& mixture, ModelConfig& config);
// Which layers have experts: from the first on every step-th. As many as there are layers: none.
struct GgufSparse {
  index first = 0, step = 1;
  bool has(index layer) const { return layer >= first && (layer + 1) % step == 0; }
};
GgufSparse read_gguf_sparse(GgufMetadata& meta, const std::string& arch, const ModelConfig& config);

void write_gguf_experts(const ModelConfig& config, const std::string& arch, const Mixture& mixture, GgufWriter& writer);

}  // namespace inlay::exec
