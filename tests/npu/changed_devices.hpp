// Descriptions that load and are none of the library's: one of its own with something left out, or another figure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "npu_kernels/backend/descriptions.hpp"

namespace inlay::test {

using Json = nlohmann::ordered_json;

struct ChangedDevice {
  std::string what, text;
};

// Sources that no figure names any more are refused.
inline std::string with_its_sources(Json device) {
  std::set<std::string> used;
  const auto collect = [&](const auto& self, const Json& node) -> void {
    if (node.is_array() && node.size() == 2 && node[0].is_number() && node[1].is_string())
      used.insert(node[1].get<std::string>());
    else if (node.is_structured())
      for (const Json& each : node) self(self, each);
  };
  collect(collect, device);
  Json kept = Json::object();
  for (const auto& [key, source] : device["sources"].items())
    if (used.contains(key)) kept[key] = source;
  device["sources"] = kept;
  return device.dump();
}

// Each of the library's descriptions, as JSON.
template <class Visit> void each_description(Visit&& visit) {
  for (const npu::Description& description : npu::descriptions())
    visit(std::string(description.name), Json::parse(description.text));
}

// With another number in place of a figure's.
inline ChangedDevice with_figure(const Json& device, const std::string& pointer, double number) {
  Json changed = device;
  Json& figure = changed[Json::json_pointer(pointer)][0];
  if (number == static_cast<double>(static_cast<std::int64_t>(number)))
    figure = static_cast<std::int64_t>(number);
  else
    figure = number;
  return {device["name"].get<std::string>() + " with " + pointer + " " + figure.dump(), with_its_sources(changed)};
}

// Its i-th memory of at most so many bytes, and at least of one granule.
inline ChangedDevice with_memory(const Json& device, std::size_t i, std::int64_t bytes) {
  const Json& memory = device["memories"][i];
  const std::int64_t align = memory["align"][0];
  ChangedDevice changed = with_figure(device, "/memories/" + std::to_string(i) + "/bytes",
                                      static_cast<double>(std::max(align, bytes / align * align)));
  changed.what += " (" + memory["name"].get<std::string>() + ")";
  return changed;
}

}  // namespace inlay::test
