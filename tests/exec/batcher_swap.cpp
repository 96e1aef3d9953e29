// Texts that are preempted where there is a swap space, without a model (tests/exec/swap_on_cl.cpp has one).
#include <gtest/gtest.h>

#include <string>

#include "tests/exec/support/batcher_simulation.hpp"

namespace inlay::exec {
namespace {

// Where there is a swap space nothing is computed twice: each token of each text once, and the last one of none.
TEST(batcher_swap, what_was_swapped_out_is_not_computed_again) {
  for (const bool reuses : {false, true}) {
    index reused = 0;
    for (index room = 8; room <= 14; ++room) {
      SCOPED_TRACE("room " + std::to_string(room));
      Simulation s(blocks(room), {.tokens = 16, .requests = 8, .reuse_prefixes = reuses}, 100);
      for (int i = 0; i < 3; ++i) s.submit(7 + i, 14);
      index computed = 0;
      while (!s.texts.empty() && s.steps < 200)
        for (const auto& [rank, count] : s.step()) computed += count;
      EXPECT_GT(s.batcher.preemptions(), 0);
      EXPECT_EQ(s.batcher.swaps(), s.batcher.preemptions());
      EXPECT_EQ(computed, 7 + 8 + 9 + 3 * 14);
      EXPECT_EQ(s.swap.pool.free_blocks(), 100);
      reused += s.batcher.reused();
    }
    EXPECT_EQ(reused > 0, reuses);  // what was found in the cache is not copied
  }
}

// The next of a prompt goes on with what was swapped of it.
TEST(batcher_swap, what_was_swapped_out_goes_to_who_goes_on) {
  Simulation s(blocks(9), {.tokens = 2, .requests = 2}, 100);
  s.submit(4, 20);
  s.submit(20, 4, {}, {}, 1);
  while (s.batcher.preemptions() == 0 && s.texts.size() == 2) s.step();
  ASSERT_EQ(s.texts.size(), 2u);
  const Text& text = *s.with_rank(1);
  ASSERT_GT(text.swapped.length, 0);
  ASSERT_LT(text.swapped.length, 20);
  const Sequence swapped = text.swapped;
  s.replace(*s.with_rank(1));
  EXPECT_EQ(s.with_rank(2)->swapped.blocks, swapped.blocks);
  EXPECT_EQ(s.with_rank(2)->swapped.length, swapped.length);
  s.run_to_end(200);
}

// What finds no room there, or is not copied, is computed a second time.
TEST(batcher_swap, what_is_not_swapped_is_computed_again) {
  const auto computed = [](index swap_blocks, int fails_from, int fails_to) {
    Simulation s(blocks(8), {.tokens = 16, .requests = 8, .reuse_prefixes = false}, swap_blocks);
    int asked = 0;
    s.swap.fails = [&] { return ++asked >= fails_from && asked < fails_to; };
    s.submit(4, 20), s.submit(5, 22);
    index all = 0;
    while (!s.texts.empty() && s.steps < 200)
      for (const auto& [rank, count] : s.step()) all += count;
    EXPECT_EQ(s.batcher.preemptions(), 1);
    EXPECT_EQ(s.swap.pool.free_blocks(), swap_blocks);
    return all;
  };
  constexpr index once = 4 + 20 + 5 + 22;
  EXPECT_EQ(computed(100, 0, 0), once);
  EXPECT_GT(computed(0, 0, 0), once);
  EXPECT_EQ(computed(1, 0, 0), computed(0, 0, 0));
  EXPECT_EQ(computed(100, 1, 2), computed(0, 0, 0));  // on its way out
  EXPECT_EQ(computed(100, 2, 3), computed(0, 0, 0));  // on its way back
}

}  // namespace
}  // namespace inlay::exec
