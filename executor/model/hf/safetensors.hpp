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
#include <vector>

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

// `bytes` of a file at a multiple of `alignment`: where they lie, or a copy that joins `memory`, since the format pads
// to 8 bytes by custom, not by rule. The pages of what was copied are given back.
Expected<const std::byte*> aligned_data(const std::byte* data, index bytes, std::size_t alignment,
                                        std::vector<std::shared_ptr<const Mapping>>& memory);

}  // namespace inlay::exec
