#pragma once

#include <string>
#include <string_view>

namespace inlay::test {

// The checkout: told by one object, that a cache of compilers may give the others to every checkout.
extern const char* const source_dir;

// A file below it.
inline std::string source_path(std::string_view below) { return std::string(source_dir) + "/" + std::string(below); }

}  // namespace inlay::test
