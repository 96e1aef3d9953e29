// The order in which texts share a cache, without a model: what a pass computes is counted, and every token comes at
// once.
#include <inlay/exec/serve/batcher.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/exec/support/block_pool.hpp"

namespace inlay::exec {
namespace {

// What a slot of the cache holds: a number for the token and all before it, for the attention that computed each, and
// for who may see it.
using Value = std::uint64_t;
std::vector<Value> values_of(const Request& text) {
  std::vector<Value> values;
  Value value = std::hash<std::string>{}(text.cache_salt);
  for (index i = 0; i < static_cast<index>(text.known.size()); ++i)
    values.push_back(value =
                         PrefixCache::mixed(value, 2 * text.known[static_cast<std::size_t>(i)] + (i < text.prompt)));
  return values;
}

// Texts that end when they have all of their tokens. Each step proves what must hold after every one: that a text's
// blocks hold what it would have computed by itself, too.
struct Simulation {
  BlockPool pool;
  std::vector<Value> cache =
      std::vector<Value>(static_cast<std::size_t>(pool.shape().blocks * pool.shape().block_size));
  Batcher::Options options;
  Batcher batcher;
  std::vector<std::unique_ptr<Request>> texts = {};
  index ranks = 0, steps = 0;
  std::vector<index> ended = {};  // their ranks, in order

  Simulation(const BlockPool::Shape& shape, const Batcher::Options& given)
      : pool(shape), options(given), batcher(pool, given) {
    EXPECT_TRUE(ok(Batcher::check(given)));
  }

  // A prompt of its own, or `begins` and then its own.
  Request* submit(index prompt, index more, std::vector<Token> begins = {}, std::string salt = {}) {
    auto text = std::make_unique<Request>(Request{.rank = ranks,
                                                  .known = std::move(begins),
                                                  .prompt = prompt,
                                                  .most = prompt + more,
                                                  .cache_salt = std::move(salt)});
    text->known.resize(static_cast<std::size_t>(prompt), static_cast<Token>(1000 + ranks++));
    if (!batcher.submit(*text).ok()) return nullptr;
    texts.push_back(std::move(text));
    return texts.back().get();
  }
  Request* any(index number) {
    return texts.empty() ? nullptr : texts[static_cast<std::size_t>(number) % texts.size()].get();
  }
  void remove(Request* text) {
    batcher.remove(*text);
    std::erase_if(texts, [&](const auto& each) { return each.get() == text; });
  }

  // Tokens that each text computed.
  std::map<index, index> step() {
    ++steps;
    const auto runs = [](const auto& each) { return !each->sequence.blocks.empty(); };
    const auto oldest = std::find_if(texts.begin(), texts.end(), runs);
    const Request* const first = oldest == texts.end() ? nullptr : oldest->get();
    const index before = first ? first->computed() : 0, preempted = batcher.preemptions();
    std::set<index> running;
    for (const auto& each : texts)
      if (runs(each)) running.insert(each->rank);
    std::map<index, index> computed;
    std::vector<Request*> caught_up;
    index all = 0;
    bool prompts = false;
    const std::span<const Batcher::Part> parts = batcher.next();
    for (const auto& [request, count, has_logits] : parts) {
      EXPECT_GT(count, 0);
      EXPECT_TRUE(computed.emplace(request->rank, count).second) << "a text has two parts of one pass";
      EXPECT_FALSE(request->writes() && prompts) << "a generated token stands behind a prompt";
      prompts = prompts || !request->writes();
      if (!request->writes()) {
        EXPECT_LE(request->computed() + count, request->prompt) << "one part is both";
      }
      EXPECT_EQ(has_logits, request->missing() == count);
      EXPECT_TRUE(batcher.preemptions() == preempted || running.contains(request->rank))
          << "a text is admitted in the pass that preempts another";
      EXPECT_LE(pool.lacking(request->sequence, request->computed() + count), 0) << "computed without a block";
      if (has_logits) caught_up.push_back(request);
      all += count;
    }
    compute(parts);
    EXPECT_LE(all, options.tokens);
    EXPECT_LE(batcher.running(), options.requests);
    batcher.computed();
    if (first) {
      EXPECT_GT(first->computed(), before) << "the oldest that runs stands still";
    }
    EXPECT_TRUE(texts.empty() || all > 0) << "nothing is computed";
    for (Request* text : caught_up) {
      text->known.push_back(static_cast<Token>(1 + text->rank % 2));
      if (static_cast<index>(text->known.size()) <= text->most) continue;
      ended.push_back(text->rank);
      remove(text);
    }
    audit();
    return computed;
  }
  // The pass, as the batch tells it.
  void compute(std::span<const Batcher::Part> parts) {
    Batch batch;
    EXPECT_TRUE(ok(batcher.fill(batch)));
    const std::int64_t* slot = batch.views().slots.as<std::int64_t>();
    for (const auto& [request, count, has_logits] : parts) {
      const std::vector<Value> values = values_of(*request);
      for (index i = 0; i < count; ++i)
        cache[static_cast<std::size_t>(*slot++)] = values[static_cast<std::size_t>(request->computed() + i)];
    }
  }
  void audit() const {
    std::vector<const Sequence*> sequences;
    for (const auto& each : texts) {
      sequences.push_back(&each->sequence);
      const std::vector<Value> values = values_of(*each);
      for (index i = 0; i < each->computed(); ++i)
        ASSERT_EQ(cache[static_cast<std::size_t>(pool.slot(each->sequence, i))], values[static_cast<std::size_t>(i)])
            << "text " << each->rank << ", token " << i;
    }
    EXPECT_TRUE(ok(pool.audit(sequences)));
  }
  void run_to_end(index most) {
    while (!texts.empty() && steps < most && !::testing::Test::HasFailure()) step();
    EXPECT_TRUE(texts.empty()) << texts.size() << " texts did not end in " << steps << " steps";
    EXPECT_EQ(pool.free_blocks(), pool.shape().blocks);
  }
};

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
  Request* const victim = s.texts.back().get();
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

TEST(batcher, holds_its_rules_over_random_arrivals_and_departures) {
  std::mt19937 random(5);
  const auto draw = [&](index most) { return static_cast<index>(random() % static_cast<unsigned>(most)); };
  index preemptions = 0, operations = 0, reused = 0;
  for (int round = 0; round < 300 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const index tokens = 1 + draw(40);
    Simulation s(blocks(3 + draw(30), 1 + draw(6)),
                 {.tokens = tokens, .requests = 1 + draw(tokens - tokens / 4), .passes = draw(5)});
    for (int i = 0; i < 330 && !::testing::Test::HasFailure(); ++i, ++operations) switch (draw(8)) {
        case 0:
          s.submit(1 + draw(40), 1 + draw(60), std::vector<Token>(static_cast<std::size_t>(draw(20)), draw(2)),
                   std::string(static_cast<std::size_t>(draw(3)), 's'));
          break;
        case 1: {  // a prompt that is what another one has by now
          const Request* const other = s.any(draw(8));
          const index own = 1 + draw(5);
          if (other) s.submit(static_cast<index>(other->known.size()) + own, 1 + draw(9), other->known);
          break;
        }
        case 2:
          if (Request* const text = s.any(draw(8))) s.remove(text);
          s.audit();
          break;
        default: s.step();
      }
    s.run_to_end(100000);
    preemptions += s.batcher.preemptions();
    reused += s.batcher.reused();
  }
  EXPECT_GT(preemptions, 1000);
  EXPECT_GT(reused, 10000);
  EXPECT_GT(operations, 90000);
}

}  // namespace
}  // namespace inlay::exec
