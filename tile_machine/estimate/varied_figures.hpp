// Figures of a description that may have other values: which of them a program's times depend on, and the description
// with others in their place.
#pragma once

#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tile_machine/device/device.hpp"

namespace inlay::npu {

// What a log's cycles depend on and the log itself does not, and of which the source leaves something open.
inline bool varies(const Provenance& figure) {
  const auto under = [&](std::string_view section) { return figure.pointer.rfind(section, 0) == 0; };
  if (figure.low >= figure.high) return false;
  if (under("/compile") || under("/ghz") || under("/host") || under("/numerics")) return false;
  return !figure.whole ||
         (under("/queues") && (figure.pointer.ends_with("/depth") || figure.pointer.ends_with("/outstanding")));
}

inline void put_figure(nlohmann::json& description, const Provenance& figure, double value) {
  description.at(nlohmann::json::json_pointer(figure.pointer))[0] = figure.whole ? std::round(value) : value;
}

// A part of a bandwidth, a device's or a core's, is at most all of it.
inline void keep_parts_within_all(nlohmann::json& description) {
  for (const char* section : {"dram", "l2"}) {
    nlohmann::json& part = description.at(section);
    if (part.is_null()) continue;
    const nlohmann::json* all = &part.at("bytes_per_cycle")[0];
    for (const char* key : {"bytes_per_cycle_agent", "bytes_per_cycle_core"}) {
      if (!part.contains(key)) continue;
      nlohmann::json& mine = part.at(key)[0];
      if (mine.get<double>() > all->get<double>()) mine = *all;
      all = &mine;
    }
  }
}

}  // namespace inlay::npu
