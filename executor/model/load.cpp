#include <filesystem>
#include <utility>

#include <inlay/model/load.hpp>

#include "executor/model/gguf/model.hpp"
#include "executor/model/hf/model.hpp"

namespace inlay::exec {

Expected<ModelFile> load_model(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error) || std::filesystem::path(path).extension() == ".safetensors")
    return hf_model(path);
  return load_gguf(path);
}

}  // namespace inlay::exec
