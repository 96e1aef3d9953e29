// Fibers: who runs when, and what stays inside.
#include "tile_machine/run/fiber.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tile_machine/run/streams.hpp"

namespace inlay::npu {
namespace {

TEST(Fiber, StopsAndGoesOn) {
  std::string log;
  std::unique_ptr<Fiber> fiber;
  fiber = std::make_unique<Fiber>([&] {
    for (char step : {'a', 'b', 'c'}) {
      log += step;
      fiber->yield();
    }
  });
  ASSERT_TRUE(fiber->started());
  while (!fiber->done()) {
    log += '.';
    fiber->resume();
  }
  EXPECT_EQ(log, ".a.b.c.");
  EXPECT_FALSE(fiber->threw());
}

TEST(Fiber, AnExceptionStaysInside) {
  Fiber fiber([] { throw std::runtime_error("inside"); });
  fiber.resume();
  EXPECT_TRUE(fiber.done());
  EXPECT_TRUE(fiber.threw());
}

// Frames of 64 KiB in all, live across a yield.
int deep(Fiber& fiber, int depth) {
  volatile char frame[1024] = {};
  frame[depth] = 1;
  if (depth == 0) {
    fiber.yield();
    return 0;
  }
  return deep(fiber, depth - 1) + frame[depth];
}

TEST(Fiber, KeepsItsStack) {
  int sum = 0;
  std::unique_ptr<Fiber> fiber;
  fiber = std::make_unique<Fiber>([&] { sum = deep(*fiber, 64); });
  fiber->resume();
  EXPECT_EQ(sum, 0);
  fiber->resume();
  EXPECT_EQ(sum, 64);
}

TEST(Streams, ABlockedStreamLetsTheOthersRun) {
  Streams streams;
  std::vector<std::uint32_t> order;
  int ready = 3;  // stream i waits until it is i: the last one starts
  const Streams::End end = streams.run(4, [&](std::uint32_t core) {
    streams.block(core, [&] { return ready == static_cast<int>(core); });
    order.push_back(core);
    --ready;
  });
  EXPECT_EQ(end, Streams::End::finished);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{3, 2, 1, 0}));
}

TEST(Streams, NothingLeftToRunIsADeadlock) {
  Streams streams;
  int stuck = 0;
  streams.stuck = [&] { ++stuck; };
  const Streams::End end = streams.run(2, [&](std::uint32_t core) { streams.block(core, [] { return false; }); });
  EXPECT_EQ(end, Streams::End::deadlock);
  EXPECT_EQ(stuck, 1);
  EXPECT_TRUE(streams.cancelled());
}

}  // namespace
}  // namespace inlay::npu
