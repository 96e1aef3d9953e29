// A program over views of the host, run checked and functional.
#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {

template <class T> std::vector<T> counted(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<float>(i % 2039));
  return values;
}

// Runs the program checked and functional; both leave the same bytes in `out`.
template <class T>
void run_both(const Device& device, std::vector<T>& out,
              const std::function<std::function<void(Core&)>(GlobalMemory&)>& place) {
  const std::vector<T> before = out;
  Machine slow(device);
  expect_clean(slow, place(slow));
  const std::vector<T> checked = out;
  out = before;
  FunctionalMachine quick(device);
  expect_no_reports(quick.run(place(quick)), device.name);
  EXPECT_EQ(std::memcmp(out.data(), checked.data(), out.size() * sizeof(T)), 0);
}

}  // namespace inlay::npu
