// Operators are called from many threads at once, over one pool, and go on behind fork() in child and parent.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/core/threads.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/rms_norm.hpp>
#include "tests/support/sanitizers.hpp"

namespace inlay {
namespace {

std::vector<float> waves(index count, float step) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(step * static_cast<float>(i));
  return values;
}

// A thread of an engine: a prompt of its own length, attended to and normalised, in memory of its own.
struct Caller {
  static constexpr index heads = 4, dim = 32;
  index tokens;
  std::vector<float> q, k, v, weight, attended, normalised;
  std::vector<std::byte, CacheLineAllocator<std::byte>> scratch;

  explicit Caller(index number)
      : tokens(40 + 3 * number),
        q(waves(tokens * heads * dim, 0.1f)),
        k(waves(tokens * heads * dim, 0.2f)),
        v(waves(tokens * heads * dim, 0.3f + 0.01f * static_cast<float>(number))),
        weight(waves(dim, 1)),
        attended(q.size()),
        normalised(q.size()) {}

  bool call(const Cpu& cpu) {
    const FlashAttention<> attention{.q = {q.data(), {1, tokens, heads, dim}},
                                     .k = {k.data(), {1, tokens, heads, dim}},
                                     .v = {v.data(), {1, tokens, heads, dim}},
                                     .out = {attended.data(), {1, tokens, heads, dim}},
                                     .causal = true};
    const RmsNorm<> norm{.x = {attended.data(), {tokens, heads * dim}},
                         .weight = {weight.data(), {dim}},
                         .y = {normalised.data(), {tokens, heads * dim}},
                         .heads = heads};
    scratch.resize(workspace_bytes(cpu, attention));
    return run(cpu, attention, scratch).ok() && run(cpu, norm).ok();
  }
  // Wrong until it is called again.
  void forget() { attended.assign(attended.size(), 7), normalised.assign(normalised.size(), 7); }
  bool operator==(const Caller& other) const {
    return std::memcmp(normalised.data(), other.normalised.data(), normalised.size() * sizeof(float)) == 0;
  }
};

// All work is worth handing out: threads take turns on the pool, and who finds it taken computes by itself.
Cpu sharing(Parallel parallel) {
  parallel.least = 0;
  return Cpu(parallel);
}

std::vector<Caller> computed(index count) {
  std::vector<Caller> callers;
  for (index i = 0; i < count; ++i) EXPECT_TRUE(callers.emplace_back(i).call(Cpu(serial())));
  return callers;
}

// How many of the callers, each on a thread of its own and called so often, ever had other bits.
int strayed(const std::vector<Caller>& expected, const Cpu& cpu, int times) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (const Caller& one : expected)
    threads.emplace_back([&] {
      Caller caller = one;
      for (int i = 0; i < times; ++i) {
        caller.forget();
        if (!caller.call(cpu) || !(caller == one)) {
          ++wrong;
          return;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST(callers, of_32_threads_have_the_bits_of_one) {
  const std::vector<Caller> expected = computed(32);
  EXPECT_EQ(strayed(expected, sharing(threads(3)), 6), 0);
  Threads own({.width = 2});
  EXPECT_EQ(strayed(expected, sharing(own.parallel()), 3), 0);
}

// The child is born while others compute, and both sides hand work out afterwards.
TEST(callers, go_on_behind_fork) {
  if (test::thread_sanitizer) GTEST_SKIP() << "not under ThreadSanitizer, which ends such a child";
  if (test::address_sanitizer) GTEST_SKIP() << "not under AddressSanitizer, whose malloc may stay locked in the child";
  const std::vector<Caller> expected = computed(4);
  const Cpu cpu = sharing(threads(3));
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::thread other([&] {
    while (!over) wrong += strayed(expected, cpu, 1);
  });
  for (int round = 0; round < 8; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(strayed(expected, cpu, 2) == 0 ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  over = true;
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(strayed(expected, cpu, 2), 0);
}

}  // namespace
}  // namespace inlay
