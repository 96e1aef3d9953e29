// load_model: one door for every format.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>

#include <inlay/model/gguf_model.hpp>
#include <inlay/model/hf_model.hpp>
#include <inlay/model/model_file.hpp>

namespace inlay::exec {

// A GGUF file, a .safetensors file with config.json beside it, or a directory that holds both.
inline Expected<ModelFile> load_model(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error) || std::filesystem::path(path).extension() == ".safetensors")
    return hf_model(path);
  auto file = GgufFile::open(path);
  if (!file) return failure(std::move(file.error()));
  return gguf_model(*file);
}

}  // namespace inlay::exec
