// A GGUF file as a model.
#pragma once

#include <string>

#include <inlay/model/model_file.hpp>

#include "executor/model/gguf/gguf.hpp"

namespace inlay::exec {

// The first part, where the model is split into several.
Expected<ModelFile> load_gguf(const std::string& path);

Expected<ModelFile> gguf_model(const GgufFile& file);

}  // namespace inlay::exec
