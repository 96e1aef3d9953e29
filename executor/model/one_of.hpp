// Names that a message lists: "a, b or c".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace inlay::exec {

inline std::string one_of(std::span<const std::string_view> names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list.append(i == 0 ? "" : i + 1 < names.size() ? ", " : " or ").append(names[i]);
  return list;
}

}  // namespace inlay::exec
