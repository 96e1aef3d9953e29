// What reading files may cost, whoever refuses them (docs/model_files.md).
#pragma once

#include <cstddef>

namespace inlay::test {

inline constexpr std::size_t file_share = 10;                        // bytes of memory for a byte of the files,
inline constexpr std::size_t any_file_costs = std::size_t{4} << 20;  // and what any file may cost

}  // namespace inlay::test
