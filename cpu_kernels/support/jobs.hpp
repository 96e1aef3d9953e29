// Jobs 0 .. count - 1, which workers fetch one by one until none is left, so that a slow core delays one of them only.
// A worker keeps what it has made ready from one job to the next:
//
//   Jobs jobs(count);
//   parallel(workers, work, [&](index worker) {
//     Scratch mine(worker);
//     jobs.each([&](index job) { .. });
//   });
#pragma once

#include <atomic>

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::cpu {

class Jobs {
 public:
  INLAY_INLINE explicit Jobs(index count) : count_(count) {}
  template <class Body> INLAY_INLINE void each(Body&& body) {
    for (index job; (job = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) body(job);
  }

 private:
  index count_;
  std::atomic<index> next_{0};
};

}  // namespace inlay::cpu
