// Threads that wait for one another in a test.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include <inlay/core/parallel.hpp>

namespace inlay::test {

// Waits for what other threads do; a test that would wait for ever fails instead.
template <class Done> bool eventually(Done&& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Each of `count` tasks waits for all of them: as many threads have to come.
inline bool all_meet(const Parallel& parallel, index count) {
  std::atomic<index> here{0};
  std::atomic<bool> met{true};
  parallel(count, [&](index) {
    ++here;
    if (!eventually([&] { return here == count; })) met = false;
  });
  return met;
}

}  // namespace inlay::test
