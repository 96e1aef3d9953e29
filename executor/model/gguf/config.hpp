// The configuration of a model in GGUF's metadata, read and written: what one of the two says the other knows.
//
// Keys are llama.cpp's. One is ours, because no other reader has a word for it:
//
//   inlay.rope.yarn_truncate   bool; false: the ends of YaRN's ramp are no whole pairs (absent: true)
#pragma once

#include <string>

#include <inlay/model/model_config.hpp>

#include "executor/model/gguf/gguf.hpp"
#include "executor/model/gguf/writer.hpp"

namespace inlay::exec {

// GGUF has one architecture for Llama and Mistral.
std::string gguf_architecture(const ModelConfig& config);

// How rows of q and k lie in files of this architecture. llama.cpp's converter permutes them to pairs of neighbours
// for some; the others keep halves.
RopeConfig::Pairing gguf_pairing(const std::string& architecture);

// Refuses an architecture that nothing here runs, by name.
Status check_gguf_architecture(const GgufFile& file);

Expected<ModelConfig> read_gguf_config(const GgufFile& file);

// Refuses what the keys have no form for. `origin` names the model in messages.
Status write_gguf_config(const ModelConfig& config, const std::string& origin, GgufWriter& writer);

}  // namespace inlay::exec
