// Sizes for operators that compute every element from its peers (cpu_kernels/support/elementwise.hpp).
#pragma once

#include <utility>
#include <vector>

#include "cpu_kernels/support/elementwise.hpp"

namespace inlay::test {

// Rows and their length: around that at which rows are cut for threads, and so many short ones that threads share them.
inline std::vector<std::pair<index, index>> rows_around_the_grain() {
  constexpr index grain = cpu::elementwise_grain;
  return {{1, grain - 1}, {2, grain}, {2, grain + 1}, {1, 3 * grain + 5}, {2 * (grain / 9) + 1, 9}, {3, grain / 2 + 1}};
}

}  // namespace inlay::test
