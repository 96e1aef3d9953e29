// devices/*.json as the library brings them: cmake/embed_devices.cmake writes the table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <inlay/core/status.hpp>

namespace inlay::npu {

struct Description {
  std::string_view name, text;
};
std::span<const Description> descriptions();

// Of the device that NpuOptions names. Errors: a name that there is not, a file that cannot be read.
Expected<std::string> description_of(const std::string& device);

}  // namespace inlay::npu
