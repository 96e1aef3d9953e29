// A file that others may be reading: they see the old one or the whole new one.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include <inlay/core/status.hpp>

namespace inlay::files {

// What `write` writes becomes the file's content, by way of a neighbour that takes its name once it is on the disk. A
// failure, be it of `write`, leaves the file as it was. A pipe or a device is written as it is.
Status write_whole(const std::string& file, const std::function<Status(std::FILE*)>& write);
Status write_whole(const std::string& file, std::string_view text);

}  // namespace inlay::files
