// How much of a sweep runs. What a case costs most is a program of its own, for an NPU to check or OpenCL to compile,
// so cases take turns with the descriptions of NPUs and with the shapes of OpenCL. INLAY_SWEEP=whole takes all of them
// for every case, INLAY_SWEEP=cpu none.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <random>
#include <string_view>

#include "tests/support/sanitizers.hpp"

namespace inlay::test {

inline bool is_set(const char* variable, std::string_view value) {
  const char* set = std::getenv(variable);
  return set != nullptr && set == value;
}

// Draws, and does not count: a test's own loop over types or layouts would fall into step with a counter.
class Turns {
 public:
  // visit(each), until one returns false, of those whose turn it is.
  template <class List, class Visit> void operator()(List& list, Visit&& visit) {
    if (list.empty() || thread_sanitizer || is_set("INLAY_SWEEP", "cpu")) return;  // there are no threads in them
    if (!is_set("INLAY_SWEEP", "whole")) return (void)visit(list[draw_() / 16 % list.size()]);
    for (auto& each : list)
      if (!visit(each)) return;
  }

 private:
  std::minstd_rand draw_;
};

}  // namespace inlay::test
