// The safetensors container: u64 length, JSON of that length, data.
//
//   {"name": {"dtype": "BF16", "shape": [256, 64], "data_offsets": [0, 32768]}, "__metadata__": {...}}
//
// Offsets count from the end of the JSON. Extents are row-major, innermost last.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

struct SafetensorsFile {
  std::string path;
  std::shared_ptr<const Mapping> mapping;
  std::map<std::string, WeightTensor> tensors;      // F32, F16 and BF16
  std::map<std::string, std::string> other_dtypes;  // name -> dtype of those that are something else
};

Expected<SafetensorsFile> open_safetensors(const std::string& path);

}  // namespace inlay::exec
