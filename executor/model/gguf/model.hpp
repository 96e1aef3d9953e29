// A GGUF file as a model.
#pragma once

#include <inlay/model/model_file.hpp>

#include "executor/model/gguf/gguf.hpp"

namespace inlay::exec {

Expected<ModelFile> gguf_model(const GgufFile& file);

}  // namespace inlay::exec
