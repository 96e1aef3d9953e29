// A Hugging Face checkpoint: config.json, safetensors in one file or several, tokenizer where there is one.
#pragma once

#include <string>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

// A directory, or one .safetensors file in it.
Expected<ModelFile> hf_model(const std::string& path);

}  // namespace inlay::exec
