// The safetensors container: u64 length, JSON of that length, data.
//
//   {"name": {"dtype": "BF16", "shape": [256, 64], "data_offsets": [0, 32768]}, "__metadata__": {...}}
//
// Offsets count from the end of the JSON. Extents are row-major, innermost last. A tensor may have none of them (one
// element), or one of 0 (no element).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

struct SafetensorsFile {
  // A tensor as it lies in the file.
  struct Raw {
    std::string dtype;
    int rank = 0;  // 0 where the shape of an unknown dtype is no reasonable one
    std::array<index, 4> extents{};
    const std::byte* data = nullptr;
    index bytes = 0;
  };
  std::string path;
  std::shared_ptr<const Mapping> mapping;
  std::map<std::string, WeightTensor> tensors;  // F32, F16 and BF16
  std::map<std::string, Raw> other_dtypes;      // those that are something else
};

Expected<SafetensorsFile> open_safetensors(const std::string& path);

}  // namespace inlay::exec
