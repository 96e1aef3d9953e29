// Who is to be looked at when: agents in the order of their ticks. Nearly all of them are near, so that they lie in
// buckets of two cycles, found by a bit for each; what is further off waits in a heap.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "tile_machine/time/bandwidth.hpp"

namespace inlay::npu {

class WakeQueue {
 public:
  WakeQueue();
  // Not before the tick that was taken last.
  void push(Tick at, std::uint64_t agent);
  // Of the first; never: there is none.
  Tick next() const { return next_; }
  // Those of next(), in ascending order. What is pushed for this tick afterwards is taken by another call.
  void take(std::vector<std::uint64_t>& agents);

 private:
  static constexpr int tick_bits = 11;
  static constexpr std::uint64_t buckets = 1024, words = buckets / 64;
  static constexpr std::uint32_t nothing = 0xffffffffu;

  struct Wake {
    Tick at;
    std::uint64_t agent;
    std::uint32_t following;  // in its bucket, or of the free ones
  };
  using Far = std::pair<Tick, std::uint64_t>;

  static std::uint64_t bucket_of(Tick at) { return static_cast<std::uint64_t>(at) >> tick_bits; }
  void put(Tick at, std::uint64_t agent);
  std::uint64_t first_bucket() const;  // that is not empty; there is one
  void find_next();

  std::array<std::uint32_t, buckets> first_;  // of a bucket: in all_
  std::array<std::uint64_t, words> filled_{};
  std::vector<Wake> all_;
  std::uint32_t free_ = nothing;
  std::uint64_t near_ = 0;   // bucket of the tick that was taken last: as many follow as there are
  std::uint64_t count_ = 0;  // in buckets
  std::priority_queue<Far, std::vector<Far>, std::greater<>> far_;
  Tick next_ = never;
};

}  // namespace inlay::npu
