// devices/*.json as the library brings them: cmake/embed_devices.cmake writes the table.
#pragma once

#include <span>
#include <string_view>

namespace inlay::npu {

struct Description {
  std::string_view name, text;
};
std::span<const Description> descriptions();

}  // namespace inlay::npu
