// Threads that get every piece of work, however small: tests have small ones.
#pragma once

#include <inlay/core/threads.hpp>

namespace inlay::test {

inline Parallel handed_out(Parallel parallel) {
  parallel.least = 0;
  return parallel;
}
inline Parallel handed_out(int threads) { return handed_out(inlay::threads(threads)); }

}  // namespace inlay::test
