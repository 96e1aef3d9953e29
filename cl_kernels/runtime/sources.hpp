// The text of every .cl file, its includes in their places: embedded by cmake/embed_cl.cmake.
#pragma once

#include <string>
#include <string_view>

namespace inlay::cl {

// "rms_norm", "attention/decode": the file without its ending. Empty where there is none.
std::string source(std::string_view stem);

}  // namespace inlay::cl
