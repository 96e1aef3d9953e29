// Jobs 0 .. count - 1, which workers fetch one by one until none is left, so that a slow core delays one of them only.
// A worker keeps what it has made ready from one job to the next:
//
//   Jobs jobs(count);
//   parallel(workers, work, [&](index worker) {
//     Scratch mine(worker);
//     jobs.each([&](index job) { .. });
//   });
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <inlay/core/dtype.hpp>
#include <inlay/core/parallel.hpp>

#include "cpu_kernels/simd/inline.hpp"
#include "cpu_kernels/support/min.hpp"

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

// The same where a worker asks memory for its next job while it does one: each has a share of consecutive jobs, and
// takes the last ones of other shares once its own is done.
//
//   share     | done, by its worker | left | done, by others |
//
class JobShares {
 public:
  INLAY_INLINE JobShares(index count, const Parallel& parallel, const Work& work)
      : count_(count), shares_(parallel.alone(work) ? 1 : min(parallel.width, most)) {
    for (index s = 0; s < shares_; ++s) taken_[s].store(0, std::memory_order_relaxed);
  }
  // body(job, more): `more` where job + 1 is likely this worker's next.
  template <class Body> INLAY_INLINE void each(index worker, Body&& body) {
    for (index other = 0; other < shares_; ++other) {
      const index share = (worker + other) % shares_;
      const index begin = count_ * share / shares_, end = count_ * (share + 1) / shares_;
      for (const std::uint64_t one = other == 0 ? 1 : std::uint64_t{1} << 32;;) {
        const std::uint64_t taken = taken_[share].fetch_add(one, std::memory_order_relaxed);
        const index first = static_cast<index>(taken & 0xffffffff), last = static_cast<index>(taken >> 32);
        if (begin + first + last >= end) break;
        if (other == 0)
          body(begin + first, begin + first + last + 1 < end);
        else
          body(end - 1 - last, false);
      }
    }
  }

 private:
  static constexpr int most = 64;
  index count_, shares_;
  std::array<std::atomic<std::uint64_t>, most> taken_;  // how many of its first jobs, and above them of its last ones
};

}  // namespace inlay::cpu
