// A description's file, read whole if it is no longer than a description may be.
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "files/strict_json.hpp"
#include "tile_machine/device/device.hpp"

namespace inlay::npu {

tl::expected<Device, Status> load_device(const std::filesystem::path& file) {
  const std::string path = file.string();
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);  // an error too for what is no file
  if (error) return failure(StatusCode::not_found, path + " cannot be read: " + error.message());
  if (bytes > files::JsonLimits{}.bytes)
    return failure(StatusCode::corrupt_data, path + " has " + std::to_string(bytes) + " bytes: it must have at most " +
                                                 std::to_string(files::JsonLimits{}.bytes));
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) return failure(StatusCode::not_found, path + " cannot be read");
  auto device = parse_device(text);
  if (!device) return failure(device.error().code(), path + ": " + std::string(device.error().message()));
  return device;
}

}  // namespace inlay::npu
