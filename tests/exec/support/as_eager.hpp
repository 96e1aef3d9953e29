// Passes that are replayed have the bits of passes that are not.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <inlay/exec/buckets.hpp>

#include "tests/exec/support/many_texts.hpp"

namespace inlay::exec::test {

// Texts that come and go, with and without plans: prompts in parts beside generated tokens, and those that are
// computed a second time. `most`: texts.
template <class MakeRun>
void expect_as_eager(const ModelConfig& config, const std::string& type, const MakeRun& run,
                     Activations activations = Activations::exact, index block_size = 5, DType kv_type = DType::f16,
                     std::size_t most = 100) {
  auto texts = asked(config.vocab, 3);
  if (texts.size() > most) texts.resize(most);
  std::vector<Logits> expected;
  index passes = 0, captured_in_pieces = 0;
  for (const Plans plans : {Plans::off, Plans::decode, Plans::piecewise, Plans::full}) {
    SCOPED_TRACE("plans " + std::to_string(static_cast<int>(plans)));
    const EngineOptions options{.max_tokens = 11,
                                .context = config.context,
                                .activations = activations,
                                .cache = cache_shape(config, kv_type, block_size, 85),
                                .plans = plans};
    auto made = engine(config, type, run(), options);
    test::Counts counts;
    const auto got = together(*made, texts, {.tokens = 11, .requests = 8}, counts);
    EXPECT_GE(counts.preemptions, 1);
    EXPECT_GE(counts.copies, 1);
    const auto& [replayed, captured, eager, pieces] = made->plan_counts();
    if (plans == Plans::off) {
      expected = got;
      EXPECT_EQ(replayed + captured + eager, 0);
      continue;
    }
    ASSERT_EQ(got, expected);
    EXPECT_GT(replayed, 20);
    EXPECT_GT(captured, 5);
    EXPECT_EQ(eager > 5, plans == Plans::decode);
    EXPECT_EQ(eager == 0, plans != Plans::decode);
    EXPECT_EQ(pieces, plans == Plans::piecewise ? captured * pieces_of(config.layers) : captured);
    if (plans == Plans::full) {
      EXPECT_GT(captured, captured_in_pieces);  // passes of as many tokens have other texts
    }
    if (plans == Plans::piecewise) captured_in_pieces = captured;
    if (passes == 0) passes = replayed + captured + eager;
    EXPECT_EQ(replayed + captured + eager, passes);
  }
}

}  // namespace inlay::exec::test
