// The descriptions of devices/, as text and as JSON.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/source_dir.hpp"

namespace inlay::npu {

using Json = nlohmann::json;
using Pointer = Json::json_pointer;

inline const std::filesystem::path directory = inlay::test::source_path("tile_machine/devices");

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline Json description(const std::string& name) { return Json::parse(text_of(directory / (name + ".json"))); }

}  // namespace inlay::npu
