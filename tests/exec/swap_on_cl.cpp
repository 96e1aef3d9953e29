// Texts that give their blocks back for a while, copied to the host's memory and back: the bits of texts that nobody
// disturbs, wherever that comes, and whatever cannot be copied.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/exec/kv_pool.hpp>

#include "tests/exec/support/many_texts.hpp"
#include "tests/exec/support/on_cl.hpp"

namespace inlay::exec::test {
namespace {

using SwapOnCl = OnCl;

std::vector<Logits> written(Cl& cl, const std::vector<Asked>& texts, index blocks, index block_size, index swap_tokens,
                            test::Counts& counts, DType kv_type = DType::f16, Plans plans = Plans::decode) {
  const ModelConfig config = windowed();
  auto made = engine(config, "w4a16", Chain(std::ref(cl)),
                     {.max_tokens = 11,
                      .context = config.context,
                      .cache = cache_shape(config, kv_type, block_size, blocks * block_size),
                      .plans = plans,
                      .swap_tokens = swap_tokens});
  return together(*made, texts, {.tokens = 11, .requests = 8, .reuse_prefixes = block_size > 1}, counts);
}

// Two texts whose cache has a slot less each time: the younger is preempted at each of its tokens.
TEST_F(SwapOnCl, preempted_at_every_step_a_text_is_undisturbed) {
  constexpr index prompt = 7, more = 12;
  const std::vector<Asked> texts = {{tokens(prompt, 101), more, 0}, {tokens(prompt + 1, 101), more, 0}};
  constexpr index whole = 2 * (prompt + more) - 1;  // the last token of a text is in no cache
  on_each_shape([&](Cl& cl) {
    for (const DType kv_type : {DType::i8, DType::f16}) {
      if (kv_type == DType::f16 && cl.options().shape == ClShape::per_group) continue;  // what is copied is the same
      test::Counts none;
      const auto expected = written(cl, texts, whole + 2, 1, 0, none, kv_type);
      EXPECT_EQ(none.preemptions, 0);
      index preempted = 0;
      for (index slots = whole - 1; slots >= prompt + more; --slots) {
        SCOPED_TRACE(std::to_string(slots) + " slots");
        test::Counts counts;
        ASSERT_EQ(written(cl, texts, slots, 1, 96, counts, kv_type), expected);
        EXPECT_EQ(counts.swaps, counts.preemptions);
        preempted += counts.swaps;
      }
      EXPECT_GE(preempted, whole - 1 - prompt - more);
    }
  });
}

// Prompts in parts, forks, prefixes that are found again, and a swap space with room for some.
TEST_F(SwapOnCl, texts_that_come_and_go_are_those_of_a_large_cache) {
  auto texts = asked(tiny().vocab, 3);
  texts.resize(12);
  Cl& cl = inlay::test::cl_devices_to_test().front().cl();
  test::Counts none;
  const auto expected = written(cl, texts, 200, 5, 0, none);
  for (const index swap_tokens : {0, 40, 400}) {
    SCOPED_TRACE("swap_tokens " + std::to_string(swap_tokens));
    test::Counts counts;
    ASSERT_EQ(written(cl, texts, 17, 5, swap_tokens, counts, DType::f16, Plans::full), expected);
    EXPECT_GE(counts.preemptions, 2);
    EXPECT_GE(counts.copies, 1);
    EXPECT_EQ(counts.swaps > 0, swap_tokens > 0);
    EXPECT_EQ(counts.swaps == counts.preemptions, swap_tokens == 400);
  }
}

TEST_F(SwapOnCl, host_memory_has_no_swap_space) {
  const auto refused = [](auto run, index swap_tokens, const char* words) {
    auto weights = random_weights(tiny(), "f32", serial(), 7);
    const auto made = make_engine(
        tiny(), std::move(*weights), std::move(run),
        {.max_tokens = 8, .context = 32, .cache = cache_shape(tiny(), DType::f16, 16, 32), .swap_tokens = swap_tokens});
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code(), StatusCode::invalid_argument);
    EXPECT_NE(made.error().message().find(words), std::string_view::npos) << made.error().message();
  };
  refused(Eager(Cpu(serial())), 16, "swap_tokens is 16; it must be 0 where the cache lies in host memory");
  refused(Chain(std::ref(inlay::test::cl_devices_to_test().front().cl())), -1,
          "swap_tokens is -1; it must be at least 0");
}

}  // namespace
}  // namespace inlay::exec::test
