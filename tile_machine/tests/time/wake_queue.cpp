// The wakes of the event loop against a heap.
#include "tile_machine/time/wake_queue.hpp"

#include <gtest/gtest.h>

#include <random>

namespace inlay::npu {
namespace {

TEST(WakeQueue, GivesWhatAHeapGives) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 200; ++run) {
    using Wake = std::pair<Tick, std::uint64_t>;
    std::priority_queue<Wake, std::vector<Wake>, std::greater<>> heap;
    WakeQueue queue;
    EXPECT_EQ(queue.next(), never);
    // From the same tick to far beyond the buckets.
    const Tick reach = Tick{1} << random() % 26;
    std::vector<std::uint64_t> agents;
    Tick now = 0;
    for (int step = 0; step < 2000; ++step) {
      for (std::uint64_t count = random() % 4; count > 0; --count) {
        const Tick at = now + static_cast<Tick>(random() % static_cast<std::uint64_t>(reach));
        const std::uint64_t agent = random() % 50;
        heap.emplace(at, agent);
        queue.push(at, agent);
      }
      ASSERT_EQ(queue.next(), heap.empty() ? never : heap.top().first);
      queue.take(agents);
      if (heap.empty()) {
        ASSERT_TRUE(agents.empty());
        continue;
      }
      now = heap.top().first;
      std::vector<std::uint64_t> expected;
      for (; !heap.empty() && heap.top().first == now; heap.pop()) expected.push_back(heap.top().second);
      ASSERT_EQ(agents, expected);
    }
  }
}

}  // namespace
}  // namespace inlay::npu
