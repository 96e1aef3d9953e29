// load_model: one door for every format.
#pragma once

#include <string>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

// A GGUF file, a .safetensors file with config.json beside it, or a directory that holds both.
Expected<ModelFile> load_model(const std::string& path);

// A checkpoint of llama2.c and its tokenizer.bin. An empty `tokenizer` path leaves the tokenizer out.
Expected<ModelFile> load_llama2c(const std::string& path, const std::string& tokenizer);

}  // namespace inlay::exec
