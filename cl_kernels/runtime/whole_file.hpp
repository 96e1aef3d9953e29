// A file that others may be reading: they see the old one or the whole new one.
#pragma once

#include <string>
#include <string_view>

#include <inlay/core/status.hpp>

namespace inlay::cl {

// `text` becomes the file's content, by way of a neighbour that takes its name.
Status write_whole(const std::string& file, std::string_view text);

}  // namespace inlay::cl
