// The order in which texts share a cache, without a model: what a pass computes is counted, and every token comes at
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/exec/support/batcher_simulation.hpp"

namespace inlay::exec {
namespace {

TEST(batcher, refuses_what_could_never_run) {
  const auto refused = [](const Batcher::Options& options, std::initializer_list<const char*> words) {
    const Status status = Batcher::check(options);
    ASSERT_FALSE(status.ok());
    for (const char* word : words) EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  };
  refused({.tokens = 0, .requests = 1}, {"tokens is 0", "at least 1"});
  refused({.tokens = 16, .requests = 0}, {"requests is 0", "1 to 12"});
  refused({.tokens = 16, .requests = 13}, {"requests is 13", "1 to 12"});
  refused({.passes = -1}, {"passes is -1"});
  EXPECT_TRUE(ok(Batcher::check({.tokens = 1, .requests = 1})));

  BlockPool pool(blocks(6));
  Batcher batcher(pool, {});
  Request large{.known = std::vector<Token>(20), .prompt = 20, .most = 25}, empty{.most = 3},
      short_of{.known = {1, 2, 3}, .prompt = 3, .most = 2};
  const Status status = batcher.submit(large);
  EXPECT_EQ(status.code(), StatusCode::out_of_memory);
  EXPECT_NE(status.message().find("25 tokens needs 7 blocks; the whole KV cache has 6"), std::string::npos)
      << status.message();
  EXPECT_FALSE(batcher.submit(empty).ok());
  EXPECT_FALSE(batcher.submit(short_of).ok());
  EXPECT_EQ(batcher.waiting(), 0);
  Request whole{.known = std::vector<Token>(20), .prompt = 20, .most = 24};
  EXPECT_TRUE(ok(batcher.submit(whole)));
}

// Prompts in chunks beside a text that writes: neither stands still.
TEST(batcher, prompts_and_those_that_write_share_a_pass) {
  Simulation s(blocks(1000), {.tokens = 16, .requests = 12});
  for (int i = 0; i < 12; ++i) s.submit(1, 60);
  s.step();
  for (int i = 0; i < 4; ++i) s.submit(40, 1);  // wait: twelve run
  for (int i = 0; i < 20; ++i) {
    const auto computed = s.step();
    EXPECT_EQ(computed.size(), 12u);
    for (const auto& [rank, count] : computed) EXPECT_EQ(count, 1) << rank;
  }
  s.remove(s.texts.back().get());
  s.remove(s.texts.front().get());
  const auto beside = s.step();  // 11 write; a prompt has the other tokens of the pass
  EXPECT_EQ(beside.size(), 12u);
  EXPECT_EQ(beside.at(12), 5);
  s.run_to_end(1000);
}

// Where generated tokens are computed again, prompts still have their quarter of the pass.
TEST(batcher, what_was_preempted_holds_up_no_prompt) {
  Simulation s(blocks(9), {.tokens = 16, .requests = 4, .reuse_prefixes = false});
  s.submit(4, 24), s.submit(2, 30);
  while (s.batcher.preemptions() == 0 && s.steps < 200) s.step();
  ASSERT_EQ(s.texts.size(), 2u);
  Text* const victim = s.texts.back().get();
  EXPECT_EQ(victim->computed(), 0);
  EXPECT_TRUE(victim->sequence.blocks.empty());
  const auto known = static_cast<index>(victim->known.size());
  ASSERT_GT(known, 10);
  while (s.texts.size() == 2 && s.steps < 200) s.step();
  EXPECT_EQ(s.ended, (std::vector<index>{0}));
  // Its prompt first, by itself; then what was generated, as many as a pass leaves to them beside a prompt.
  while (victim->computed() < victim->prompt && s.steps < 200) s.step();
  EXPECT_EQ(victim->computed(), victim->prompt);
  s.submit(12, 1);
  const auto computed = s.step();
  EXPECT_EQ(computed.at(1), std::min<index>(known - 2, 12));
  s.run_to_end(200);
}

// The youngest gives way, and comes back with all that it had.
TEST(batcher, the_youngest_is_preempted_and_the_oldest_never) {
  Simulation s(blocks(8), {.tokens = 64, .requests = 8});
  for (int i = 0; i < 3; ++i) s.submit(6, 14);
  index of_oldest = 0;
  while (!s.texts.empty() && s.steps < 200) {
    s.step();
    if (s.ended.empty()) {
      EXPECT_GT(s.texts.front()->computed(), of_oldest);
      of_oldest = s.texts.front()->computed();
    }
  }
  EXPECT_GT(s.batcher.preemptions(), 0);
  EXPECT_EQ(s.ended, (std::vector<index>{0, 1, 2}));
}

// Small ones go by a giant that waits, so often and no more.
TEST(batcher, a_giant_is_passed_a_bounded_number_of_times) {
  Simulation s(blocks(30), {.tokens = 64, .requests = 8, .passes = 3});
  for (int i = 0; i < 3; ++i) s.submit(15, 8);
  s.step();
  const Request* const giant = s.submit(100, 4);
  for (int i = 0; i < 60 && giant->computed() == 0; ++i) {
    s.submit(1, 2);
    s.step();
    ASSERT_LE(giant->passed, 3);
  }
  EXPECT_GT(giant->computed(), 0) << "the giant never ran";
  EXPECT_EQ(std::count_if(s.ended.begin(), s.ended.end(), [&](index each) { return each > giant->rank; }), 3);
  s.run_to_end(400);
}

TEST(batcher, admits_where_each_that_runs_can_go_on) {
  Simulation s(blocks(10), {.tokens = 64, .requests = 8});
  s.submit(12, 9);                           // takes four of ten blocks
  const Request& second = *s.submit(20, 4);  // six, and one would have to be left
  EXPECT_EQ(s.step().size(), 1u);
  EXPECT_TRUE(second.sequence.blocks.empty());
  const Request& third = *s.submit(16, 4);  // five
  EXPECT_EQ(s.step().size(), 2u);
  EXPECT_FALSE(third.sequence.blocks.empty());
  s.run_to_end(100);
  EXPECT_EQ(s.batcher.preemptions(), 0);
}

// Sixteen texts that arrive together and begin alike: the beginning is computed once.
TEST(batcher, what_prompts_have_in_common_is_computed_once) {
  const std::vector<Token> common(52, 7);
  for (const index tokens : {16, 64, 512}) {
    SCOPED_TRACE(tokens);
    Simulation s(blocks(1000), {.tokens = tokens, .requests = 12});
    index computed = 0;
    for (int i = 0; i < 16; ++i) s.submit(60, 3, common);
    while (!s.texts.empty() && s.steps < 1000)
      for (const auto& [rank, count] : s.step()) computed += count;
    EXPECT_EQ(computed, 52 + 16 * (60 - 52) + 16 * 3);
    EXPECT_EQ(s.batcher.reused(), 15 * 52);
    // Later ones find it too; of a prompt that is all there, the block with its last token is computed.
    for (const auto& [length, found] : {std::pair<index, index>{60, 52}, {53, 52}, {52, 48}, {5, 4}, {4, 0}}) {
      const index before = s.batcher.reused();
      s.submit(length, 1, {common.begin(), common.begin() + std::min<index>(length, 52)});
      s.run_to_end(2000);
      EXPECT_EQ(s.batcher.reused() - before, found) << length;
    }
    // Another beginning is another text, though all blocks behind it are alike.
    const index before = s.batcher.reused();
    std::vector<Token> other = common;
    other[0] = 8;
    s.submit(60, 1, other);
    s.run_to_end(3000);
    EXPECT_EQ(s.batcher.reused(), before);
    // Kept blocks are nobody's: they make room, the last of a text first.
    s.submit(3990, 1);
    s.run_to_end(4000);
    EXPECT_EQ(s.batcher.reused(), before);
    s.submit(60, 1, common);
    s.run_to_end(5000);
    EXPECT_LT(s.batcher.reused() - before, 52);
  }
}

// A text that was preempted takes its own blocks back, as far as nobody took them.
TEST(batcher, what_was_preempted_finds_its_blocks_again) {
  for (const bool others_come : {false, true}) {
    SCOPED_TRACE(others_come);
    Simulation s(blocks(9), {.tokens = 16, .requests = 4});
    s.submit(6, 18), s.submit(6, 20);
    while (s.batcher.preemptions() == 0 && s.steps < 200) s.step();
    ASSERT_EQ(s.texts.size(), 2u);
    const Request& victim = *s.texts.back();
    const auto known = static_cast<index>(victim.known.size());
    ASSERT_EQ(known, 17);  // sixteen are computed, in four whole blocks
    if (others_come) {
      s.submit(11, 1);  // it goes by, and takes the last three of them
      s.step();
    }
    while (victim.computed() == 0 && s.steps < 200) s.step();
    // The oldest has taken one by now, for what it wrote meanwhile.
    const index found = others_come ? 4 : 12;
    EXPECT_EQ(s.batcher.reused(), found);
    EXPECT_EQ(victim.computed(), others_come ? 6 : known);
    s.run_to_end(200);
    // What was generated is of no use to anybody, and leaves no block; that of a prompt does.
    EXPECT_EQ(s.pool.idle_blocks(), others_come ? 3 : 2);
  }
}

// Prompt and answer of another text are a prompt like any other: what was generated has other bits.
TEST(batcher, a_prompt_takes_no_generated_blocks) {
  Simulation s(blocks(9), {.tokens = 16, .requests = 4});
  s.submit(6, 18), s.submit(6, 20);
  while (s.batcher.preemptions() == 0 && s.steps < 200) s.step();
  ASSERT_EQ(s.texts.size(), 2u);
  const std::vector<Token> known = s.texts.back()->known;
  s.remove(s.texts.front().get());  // four whole blocks of the victim lie idle
  s.remove(s.texts.front().get());
  s.submit(17, 1, known);
  s.run_to_end(100);
  EXPECT_EQ(s.batcher.reused(), 4);
  // Nor does a longer prompt whose tokens are the same.
  s.submit(14, 4, known);
  s.run_to_end(200);
  EXPECT_EQ(s.batcher.reused(), 4 + 12);
}

TEST(batcher, texts_of_two_salts_share_nothing) {
  Simulation s(blocks(100), {.tokens = 64, .requests = 8});
  const std::vector<Token> prompt(40, 7);
  for (int i = 0; i < 2; ++i)
    for (const char* salt : {"", "a", "ab", "b"}) s.submit(40, 3, prompt, salt);
  s.run_to_end(100);
  EXPECT_EQ(s.batcher.reused(), 4 * 36);  // the second of each salt all but the block of its last token
}

// Four texts of one prompt: it is computed once, and three of them copy the block that it does not fill.
TEST(batcher, texts_of_a_prompt_share_its_blocks) {
  for (const index prompt : {1, 4, 10, 12}) {
    SCOPED_TRACE(prompt);
    for (const bool reuse : {false, true}) {
      Simulation s(blocks(100), {.tokens = 16, .requests = 8, .reuse_prefixes = reuse});
      s.submit(prompt, 6, {}, {}, 3);
      EXPECT_EQ(s.step(), (std::map<index, index>{{0, prompt}}));
      EXPECT_EQ(s.texts.size(), 4u);
      EXPECT_EQ(s.batcher.running(), 4);
      EXPECT_EQ(s.pool.free_blocks(), 100 - s.pool.blocks_of(prompt + 1));
      EXPECT_EQ(s.step(), (std::map<index, index>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
      EXPECT_EQ(s.copies, prompt % 4 > 0 ? 3 : 0);
      EXPECT_EQ(s.pool.free_blocks(), 100 - prompt / 4 - 4);
      s.run_to_end(100);
      EXPECT_EQ(s.ended, (std::vector<index>{0, 1, 2, 3}));
      EXPECT_EQ(s.copies, prompt % 4 > 0 ? 3 : 0);
      EXPECT_EQ(s.batcher.preemptions(), 0);
    }
  }
}

// Who finds no place or no block waits, and is computed as one that was preempted.
TEST(batcher, a_fork_without_a_place_waits) {
  Simulation few(blocks(100), {.tokens = 16, .requests = 2});
  few.submit(10, 3, {}, {}, 3);
  few.step();
  EXPECT_EQ(few.batcher.running(), 2);
  EXPECT_EQ(few.batcher.waiting(), 2);
  few.run_to_end(100);
  EXPECT_EQ(few.ended, (std::vector<index>{0, 1, 2, 3}));
  EXPECT_EQ(few.batcher.preemptions(), 0);

  Simulation small(blocks(6), {.tokens = 16, .requests = 8});
  small.submit(10, 8, {}, {}, 5);
  small.step();
  EXPECT_EQ(small.batcher.running(), 3);  // three of six blocks are left, one for each
  EXPECT_EQ(small.batcher.waiting(), 3);
  small.run_to_end(200);
  EXPECT_EQ(small.ended.size(), 6u);
}

// What was computed of a prompt for many goes on where the first of them ends.
TEST(batcher, another_text_of_the_prompt_takes_the_first_one_s_place) {
  Simulation s(blocks(100), {.tokens = 16, .requests = 8, .reuse_prefixes = false});
  Text* text = s.submit(40, 3, {}, {}, 2);
  s.replace(*text);  // while it waits
  s.step();
  s.replace(*s.with_rank(1));
  EXPECT_EQ(s.texts.size(), 1u);
  EXPECT_EQ(s.with_rank(2)->computed(), 16);
  s.run_to_end(100);
  EXPECT_EQ(s.steps, 3 + 3);
  EXPECT_EQ(s.ended, (std::vector<index>{2}));
}

TEST(batcher, holds_its_rules_over_random_arrivals_and_departures) {
  std::mt19937 random(5);
  const auto draw = [&](index most) { return static_cast<index>(random() % static_cast<unsigned>(most)); };
  index preemptions = 0, swaps = 0, swapped = 0, operations = 0, reused = 0, copies = 0;
  for (int round = 0; round < 300 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const index tokens = 1 + draw(40);
    Simulation s(blocks(3 + draw(30), 1 + draw(6)),
                 {.tokens = tokens, .requests = 1 + draw(tokens - tokens / 4), .passes = draw(5)},
                 round % 2 * draw(40));
    s.swap.fails = [&] { return draw(8) == 0; };
    for (int i = 0; i < 330 && !::testing::Test::HasFailure(); ++i, ++operations) switch (draw(10)) {
        case 0:
          s.submit(1 + draw(40), 1 + draw(60), std::vector<Token>(static_cast<std::size_t>(draw(20)), draw(2)),
                   std::string(static_cast<std::size_t>(draw(3)), 's'), std::max<index>(draw(8) - 3, 0));
          break;
        case 1: {  // a prompt that is what another one has by now
          const Request* const other = s.any(draw(8));
          const index own = 1 + draw(5);
          if (other) s.submit(static_cast<index>(other->known.size()) + own, 1 + draw(9), other->known);
          break;
        }
        case 2:
          if (Text* const text = s.any(draw(8))) s.remove(text);
          s.audit();
          break;
        case 3:
          if (Text* const text = s.any(draw(8)); text && text->forks > 0) s.replace(*text);
          s.audit();
          break;
        case 4: s.step(draw(2) == 0); break;
        default: s.step();
      }
    s.run_to_end(100000);
    preemptions += s.batcher.preemptions();
    swaps += s.batcher.swaps();
    swapped += s.swap.copied;
    reused += s.batcher.reused();
    copies += s.copies;
  }
  EXPECT_GT(preemptions, 1000);
  EXPECT_GT(swaps, 200);
  EXPECT_GT(swapped, 2 * swaps);
  EXPECT_GT(reused, 10000);
  EXPECT_GT(copies, 500);
  EXPECT_GT(operations, 90000);
}

}  // namespace
}  // namespace inlay::exec
