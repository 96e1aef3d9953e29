// Sizes of captured plans: Ascend's formula, and the buckets that pad least, against every choice there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <inlay/exec/buckets.hpp>

namespace inlay::exec::test {
namespace {

using Sizes = std::vector<index>;

// What the comments of vLLM-Ascend's source work out for 48 layers and ranks of tensors, of 1920 streams.
TEST(buckets, ascends_formula_gives_what_its_source_says) {
  EXPECT_EQ(ascend_max_buckets({.layers = 48, .domains = 1, .streams = 1920}), 12);
  EXPECT_EQ(ascend_max_buckets({.layers = 24}), 72);
  EXPECT_EQ(ascend_max_buckets({.layers = 64}), 27);
  EXPECT_EQ(ascend_max_buckets({.layers = 64, .domains = 1}), 9);
  EXPECT_EQ(ascend_max_buckets({.layers = 64, .domains = 2}), 5);
  EXPECT_EQ(ascend_max_buckets({.layers = 64, .domains = 1, .unfolded = true}), 12);
  EXPECT_EQ(ascend_max_buckets({.layers = 4000}), 0);
  EXPECT_EQ(ascend_max_buckets({.layers = 1, .domains = 100}), 0);  // more than there are streams
}
TEST(buckets, sizes_are_sampled_evenly_and_the_ends_stay) {
  EXPECT_EQ(default_buckets(24), (Sizes{1, 2, 4, 8, 16, 24}));
  const Sizes all = default_buckets();
  EXPECT_EQ(all.size(), 3u + 31 + 17);
  EXPECT_EQ(all.back(), 512);
  EXPECT_EQ(sampled_buckets(all, 100), all);
  EXPECT_EQ(sampled_buckets(all, 2), (Sizes{1, 512}));
  EXPECT_EQ(sampled_buckets(all, 1), (Sizes{512}));
  EXPECT_EQ(sampled_buckets(all, 0), Sizes());
  EXPECT_EQ(sampled_buckets(Sizes{1, 2, 3, 4, 5, 6}, 3),
            (Sizes{1, 3, 6}));  // 2.5 is rounded to the even, as Python does
}
// vllm-ascend's issue 1168: the six sizes of 94 layers on 8 ranks, of the 67 that vLLM had then.
TEST(buckets, sizes_that_vllm_ascend_chose) {
  Sizes all{1, 2, 4};
  for (index size = 8; size <= 512; size += 8) all.push_back(size);
  EXPECT_EQ(all.size(), 67u);
  EXPECT_EQ(sampled_buckets(all, 6), (Sizes{1, 88, 192, 304, 408, 512}));
}
TEST(buckets, a_step_runs_in_the_next_one_up_or_eagerly) {
  const Sizes buckets{2, 8};
  const std::vector<LengthCount> lengths{{1, 10}, {2, 1}, {3, 2}, {9, 5}};
  const BucketUse use = use_of(buckets, lengths);
  EXPECT_EQ(use.steps, 18);
  EXPECT_EQ(use.eager_steps, 5);
  EXPECT_EQ(use.tokens, 10 + 2 + 6);
  EXPECT_EQ(use.padding, 10 + 2 * 5);
  EXPECT_DOUBLE_EQ(use.eager_share(), 5.0 / 18);
  EXPECT_DOUBLE_EQ(use.padded_share(), 20.0 / 38);
  EXPECT_EQ(use_of({}, lengths).eager_share(), 1);
}

// All sets of sizes up to the largest length.
index least_padding(const std::vector<LengthCount>& lengths, index count, index largest) {
  index least = std::numeric_limits<index>::max();
  for (std::uint32_t set = 1; set < std::uint32_t{1} << largest; ++set) {
    if (__builtin_popcount(set) > count) continue;
    index padding = 0;
    for (const LengthCount& each : lengths) {
      if (each.length > largest) continue;
      index bucket = each.length;
      while (bucket <= largest && (set >> (bucket - 1) & 1) == 0) ++bucket;
      if (bucket > largest) padding = std::numeric_limits<index>::max();
      if (bucket > largest) break;
      padding += each.count * (bucket - each.length);
    }
    least = std::min(least, padding);
  }
  return least;
}
TEST(buckets, no_choice_of_sizes_pads_less) {
  std::mt19937 random(5);
  const auto draw = [&](index low, index high) { return std::uniform_int_distribution<index>(low, high)(random); };
  for (int round = 0; round < 60; ++round) {
    std::vector<LengthCount> lengths;
    for (index length = 1; length <= 12; ++length)
      if (draw(0, 2) > 0) lengths.push_back({length, draw(1, 9)});
    if (lengths.empty()) continue;
    const index count = draw(1, 5), largest = draw(lengths.front().length, 11);
    const Sizes best = best_buckets(lengths, count, largest);
    ASSERT_FALSE(best.empty());
    EXPECT_LE(static_cast<index>(best.size()), count);
    EXPECT_TRUE(std::is_sorted(best.begin(), best.end()));
    std::vector<LengthCount> held;
    for (const LengthCount& each : lengths)
      if (each.length <= largest) held.push_back(each);
    const BucketUse use = use_of(best, held);
    EXPECT_EQ(use.eager_steps, 0);
    EXPECT_EQ(use.padding, least_padding(held, count, largest)) << "round " << round;
  }
  EXPECT_EQ(best_buckets(std::vector<LengthCount>{{5, 1}}, 4, 4), Sizes());
  EXPECT_EQ(best_buckets(std::vector<LengthCount>{{5, 1}, {7, 1}}, 4, 9), (Sizes{5, 7}));
}
TEST(buckets, lengths_are_read_and_a_wrong_line_is_named) {
  const auto read = parse_lengths("# a day\n16 3\n\n 2\t5 # short\r\n16\n");
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(*read, (std::vector<LengthCount>{{2, 5}, {16, 4}}));
  const auto refused = [](const std::string& text) {
    const auto lengths = parse_lengths(text);
    return lengths ? std::string("nothing") : std::string(lengths.error().message());
  };
  const std::string must = "; it must be a length of 1 to 2^20, and behind it how many steps had it, 1 to 2^32";
  EXPECT_EQ(refused("4 1\n0 1\n"), "lengths: line 2 is \"0 1\"" + must);
  for (const std::string text : {"x", "4 x", "4 1 1", "-4", "4 0", "4x", "1048577", "4 4294967297", "1e3"})
    EXPECT_EQ(refused(text), "lengths: line 1 is \"" + text + "\"" + must);
  EXPECT_EQ(refused("4 4294967296\n4 1"),
            "lengths: line 2 is \"4 1\"; it must be of a length that 2^32 steps had at most");
  EXPECT_EQ(refused("# none\n"), "lengths: the file has none; it must have one");
}

}  // namespace
}  // namespace inlay::exec::test
