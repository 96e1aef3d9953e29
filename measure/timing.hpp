// A call's time by the clock, and the median of several; and whether a program only shows that it works.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace inlay::measure {

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Call> double seconds(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// INLAY_BENCH_SHORT: a test runs the program. Small operands, few calls, nothing that is worth writing down.
inline bool short_run() { return std::getenv("INLAY_BENCH_SHORT") != nullptr; }

}  // namespace inlay::measure
