// Source lines by number: entries of one line (and column) have one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

// "gemm.cpp:42": how messages name a line.
std::string line_of(const SourceLocation& site);

class Sites {
 public:
  std::uint32_t number(const SourceLocation& site);

 private:
  // The name's address is quick to compare but not unique: one header may have a name in each object file.
  std::map<std::tuple<const char*, std::uint_least32_t, std::uint_least32_t>, std::uint32_t> quick_;
  std::map<std::tuple<std::string_view, std::uint_least32_t, std::uint_least32_t>, std::uint32_t> exact_;
};

std::vector<std::uint32_t> sites_of(const EventLog& log);  // by entry

}  // namespace inlay::npu
