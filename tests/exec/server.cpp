// Who asks a server is answered as generate() answers, and told once how it ended.
#include <inlay/exec/serve/server.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/eager.hpp>
#include <inlay/exec/generate.hpp>
#include <inlay/model/load.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec {
namespace {

using inlay::test::ok;

// Our model, one text after the other and all at once.
class StoriesServer : public ::testing::Test {
 protected:
  using End = TextRequest::End;
  struct Answer {
    std::vector<Token> tokens;
    std::optional<End> end;
    std::string failure;
    bool operator==(const Answer&) const = default;
  };

  void SetUp() override {
    auto loaded = load_model(inlay::test::source_path("models/stories.gguf"));
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
    file_ = std::make_shared<const ModelFile>(std::move(*loaded));
    auto tokenizer = Tokenizer::make(file_->tokenizer);
    ASSERT_TRUE(tokenizer.has_value());
    tokenizer_.emplace(std::move(*tokenizer));
  }
  Server server(Server::Options options) const {
    auto made = Server::make(file_, Eager(Cpu(inlay::test::handed_out(2))), *tokenizer_, options);
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return std::move(*made);
  }
  // Tokens of its choices go to `answers`, which must stay; each ends itself behind `most`.
  static TextRequest told(TextRequest text, std::span<Answer> answers, index most = 1 << 20) {
    text.emit = [answers, most](index choice, Token token) {
      Answer& answer = answers[static_cast<std::size_t>(choice)];
      EXPECT_FALSE(answer.end) << "a token behind the end";
      answer.tokens.push_back(token);
      return static_cast<index>(answer.tokens.size()) < most;
    };
    text.ended = [answers](index choice, End end, const Status& status) {
      Answer& answer = answers[static_cast<std::size_t>(choice)];
      EXPECT_FALSE(answer.end) << "it ended twice";
      answer.end = end;
      if (!status.ok()) answer.failure = status.message();
    };
    return text;
  }
  static TextRequest told(TextRequest text, Answer& answer, index most = 1 << 20) {
    return told(std::move(text), std::span(&answer, 1), most);
  }
  // A server that stands still fails, and waits for nobody.
  static void run_to_end(Server& server) {
    for (int steps = 0; !server.idle() && steps < 10000; ++steps) ASSERT_TRUE(ok(server.step()));
    ASSERT_TRUE(server.idle());
  }
  std::vector<TextRequest> texts() const {
    std::vector<TextRequest> all;
    const char* const beginnings[] = {"Once upon a time, there was a",
                                      "Lily",
                                      "The little dog ran to the park and",
                                      "Tom and Sue",
                                      "One day",
                                      "It was"};
    for (int i = 0; i < 18; ++i) {
      TextRequest text{.prompt = *tokenizer_->encode(beginnings[i % 6]), .tokens = 5 + 7 * (i % 9)};
      if (i % 3 > 0) text.sampling.temperature = 1, text.sampling.seed = i, text.sampling.top_k = 40;
      if (i % 4 == 1) text.sampling.repetition_penalty = 1.3f, text.sampling.presence_penalty = 0.5f;
      if (i % 5 == 2) text.biases = {{text.prompt.back(), 3}, {7, -std::numeric_limits<float>::infinity()}};
      all.push_back(std::move(text));
    }
    return all;
  }
  Answer alone(Session& session, const TextRequest& text) const {
    Answer answer;
    session.reset();
    const auto result = generate(session, *tokenizer_, text.prompt,
                                 {.tokens = text.tokens, .sampling = text.sampling, .biases = text.biases},
                                 [&](Token token) { return answer.tokens.push_back(token), true; });
    EXPECT_TRUE(result.has_value());
    answer.end = result->end == Generation::End::tokens    ? End::tokens
                 : result->end == Generation::End::stop    ? End::stop
                 : result->end == Generation::End::context ? End::context
                                                           : End::caller;
    return answer;
  }

  std::shared_ptr<const ModelFile> file_;
  std::optional<Tokenizer> tokenizer_;
};

TEST_F(StoriesServer, answers_as_generate_does) {
  auto session = Session::make(file_, Eager(Cpu(inlay::test::handed_out(2))), {.context = 60});
  ASSERT_TRUE(session.has_value());
  const auto asked = texts();
  std::vector<Answer> expected;
  for (const TextRequest& text : asked) expected.push_back(alone(*session, text));
  // Each way to end comes, or this proves less than it says.
  for (const End end : {End::tokens, End::context})
    EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [&](const Answer& each) { return each.end == end; }));
  for (const index cache : {0, 128}) {
    Server s = server({.context = 60, .cache_tokens = cache, .batch = {.tokens = 24, .requests = 6}});
    std::vector<Answer> answers(asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) ASSERT_TRUE(s.submit(told(asked[i], answers[i])).has_value());
    ASSERT_NO_FATAL_FAILURE(run_to_end(s));
    ASSERT_TRUE(ok(s.step()));  // of nothing
    for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << "text " << i;
    EXPECT_EQ(s.batcher().preemptions() > 0, cache > 0);
  }
}

// Who ends early, by itself or from outside, is told once and changes nobody else's text.
TEST_F(StoriesServer, texts_that_end_early_leave_the_others_alone) {
  Server s = server({.context = 60, .cache_tokens = 160, .batch = {.tokens = 24, .requests = 6}});
  const auto asked = texts();
  std::vector<Answer> whole(asked.size());
  for (std::size_t i = 0; i < asked.size(); ++i) ASSERT_TRUE(s.submit(told(asked[i], whole[i])).has_value());
  ASSERT_NO_FATAL_FAILURE(run_to_end(s));
  for (int steps = 0; steps < 25; steps += 3) {
    SCOPED_TRACE(steps);
    std::vector<Answer> answers(asked.size());
    std::vector<index> numbers;
    for (std::size_t i = 0; i < asked.size(); ++i)
      numbers.push_back(*s.submit(told(asked[i], answers[i], i % 4 == 3 ? 2 : 1 << 20)));
    for (int step = 0; step < steps; ++step) ASSERT_TRUE(ok(s.step()));
    for (std::size_t i = 0; i < asked.size(); i += 5) s.abort(numbers[i]), s.abort(numbers[i]);
    ASSERT_NO_FATAL_FAILURE(run_to_end(s));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const bool early = i % 4 == 3 || i % 5 == 0;
      if (!early) {
        EXPECT_EQ(answers[i], whole[i]) << "text " << i;
        continue;
      }
      const auto count = static_cast<std::ptrdiff_t>(answers[i].tokens.size());
      ASSERT_LE(answers[i].tokens.size(), whole[i].tokens.size());
      EXPECT_TRUE(std::equal(answers[i].tokens.begin(), answers[i].tokens.end(), whole[i].tokens.begin())) << i;
      if (i % 4 == 3 && i % 5 > 0 && whole[i].tokens.size() > 2) {
        EXPECT_EQ(count, 2);
        EXPECT_EQ(answers[i].end, End::caller);
      }
    }
  }
}

// n texts of one prompt are those that their seeds give alone, wherever they find room and whoever is preempted.
TEST_F(StoriesServer, choices_are_the_texts_of_their_seeds) {
  auto session = Session::make(file_, Eager(Cpu(inlay::test::handed_out(2))), {.context = 60});
  ASSERT_TRUE(session.has_value());
  auto asked = texts();
  asked[4].sampling.seed = std::numeric_limits<std::int64_t>::max();  // the next seed is the smallest
  std::vector<std::vector<Answer>> expected;
  index prompts = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    TextRequest one = asked[i];
    asked[i].n = 1 + static_cast<index>(i % 5);
    prompts += static_cast<index>(one.prompt.size());
    auto& answers = expected.emplace_back();
    for (index choice = 0; choice < asked[i].n; ++choice) {
      answers.push_back(alone(*session, one));
      one.sampling.seed = one.sampling.seed == std::numeric_limits<std::int64_t>::max()
                              ? std::numeric_limits<std::int64_t>::min()
                              : one.sampling.seed + 1;
    }
  }
  for (const index block : {5, 16})
    for (const index cache : {600, 128}) {
      SCOPED_TRACE("blocks of " + std::to_string(block) + ", a cache of " + std::to_string(cache));
      Server s = server({.context = 60,
                         .cache_tokens = cache,
                         .batch = {.tokens = 24, .requests = 6, .reuse_prefixes = cache < 600},
                         .block_size = block});
      std::vector<std::vector<Answer>> answers(asked.size());
      index ranks = 0;
      for (std::size_t i = 0; i < asked.size(); ++i) {
        answers[i].resize(expected[i].size());
        const auto rank = s.submit(told(asked[i], answers[i]));
        ASSERT_TRUE(rank.has_value());
        EXPECT_EQ(std::exchange(ranks, ranks + asked[i].n), *rank);
      }
      ASSERT_NO_FATAL_FAILURE(run_to_end(s));
      for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << "text " << i;
      EXPECT_EQ(s.batcher().preemptions() > 0, cache < 600);
    }
  // With room for all at once each prompt is computed once.
  Server roomy = server({.context = 60, .cache_tokens = 6000, .batch = {.tokens = 80, .requests = 60}});
  for (const TextRequest& each : asked) {
    ASSERT_TRUE(roomy.submit(each).has_value());
    ASSERT_NO_FATAL_FAILURE(run_to_end(roomy));
  }
  EXPECT_EQ(roomy.prompt_tokens_computed() + roomy.batcher().reused(), prompts);
}

// Choices end one by one; whoever is left of them goes on, from the prompt that another one began to compute too.
TEST_F(StoriesServer, choices_that_end_early_leave_the_others_alone) {
  TextRequest text{.prompt = *tokenizer_->encode("Once upon a time, there was a little dog. The dog ran to the park"),
                   .n = 4,
                   .tokens = 12};
  text.sampling.temperature = 1;
  ASSERT_GT(text.prompt.size(), 12u);  // three passes
  const Server::Options options{.context = 60, .cache_tokens = 96, .batch = {.tokens = 6, .requests = 3}};
  std::vector<Answer> whole(4);
  {
    Server s = server(options);
    ASSERT_TRUE(s.submit(told(text, whole)).has_value());
    ASSERT_NO_FATAL_FAILURE(run_to_end(s));
  }
  EXPECT_NE(whole[0], whole[1]);
  for (int steps = 0; steps < 8; ++steps)
    for (unsigned aborted = 1; aborted < 16; ++aborted)
      for (const bool last_first : {false, true}) {
        SCOPED_TRACE(std::to_string(steps) + " steps, aborted " + std::to_string(aborted));
        Server s = server(options);
        std::vector<Answer> answers(4), beside(1);
        const auto number = s.submit(told(text, answers));
        ASSERT_TRUE(number.has_value());
        ASSERT_TRUE(s.submit(told({.prompt = {1, 2, 3}, .tokens = 9}, beside)).has_value());
        for (int step = 0; step < steps; ++step) ASSERT_TRUE(ok(s.step()));
        for (index i = 0; i < 4; ++i)
          if (const index choice = last_first ? 3 - i : i; aborted >> choice & 1) s.abort(*number + choice);
        ASSERT_NO_FATAL_FAILURE(run_to_end(s));
        EXPECT_EQ(beside[0].tokens.size(), 9u);
        for (std::size_t choice = 0; choice < 4; ++choice) {
          const auto &got = answers[choice].tokens, &all = whole[choice].tokens;
          ASSERT_TRUE(answers[choice].end.has_value());
          ASSERT_LE(got.size(), all.size());
          EXPECT_TRUE(std::equal(got.begin(), got.end(), all.begin())) << choice;
          if (aborted >> choice & 1 && got.size() < all.size()) {
            EXPECT_EQ(answers[choice].end, End::caller);
          } else {
            EXPECT_EQ(answers[choice], whole[choice]) << choice;
          }
        }
      }
}

TEST_F(StoriesServer, texts_of_two_salts_share_nothing_of_the_cache) {
  Server s = server({.context = 100, .batch = {.tokens = 64, .requests = 6}});
  TextRequest text{.prompt = *tokenizer_->encode(
                       "Once upon a time, there was a little dog. The dog ran to the park and saw a big red ball."),
                   .tokens = 3};
  ASSERT_GT(text.prompt.size(), 16u);
  for (const auto& [salt, found] : {std::pair{"", false}, {"a", false}, {"b", false}, {"a", true}, {"", true}}) {
    const index before = s.batcher().reused();
    text.cache_salt = salt;
    ASSERT_TRUE(s.submit(text).has_value());
    ASSERT_NO_FATAL_FAILURE(run_to_end(s));
    EXPECT_EQ(s.batcher().reused() > before, found) << salt;
  }
}

TEST_F(StoriesServer, refuses_what_could_never_be_answered_and_fails_one_text_alone) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Server s = server({.context = 60, .cache_tokens = 48, .batch = {.tokens = 24, .requests = 6}});
  const auto refused = [&](const std::function<void(TextRequest&)>& change, const std::string& words) {
    TextRequest text{.prompt = {1, 2, 3}, .tokens = 4};
    change(text);
    const auto submitted = s.submit(std::move(text));
    ASSERT_FALSE(submitted.has_value()) << words;
    EXPECT_NE(submitted.error().message().find(words), std::string::npos) << submitted.error().message();
  };
  refused([](TextRequest& text) { text.n = 0; }, "n is 0; it must be at least 1");
  refused([](TextRequest& text) { text.tokens = 0; }, "tokens is 0; it must be at least 1");
  refused([](TextRequest& text) { text.prompt = {}; }, "the prompt has 0 tokens");
  refused([](TextRequest& text) { text.prompt[1] = -1; }, "a token of the prompt is -1; it must be in 0..");
  refused([](TextRequest& text) { text.prompt.resize(61, 3); }, "61 tokens; it must fit the context of 60");
  refused([](TextRequest& text) { text.tokens = 50; }, "a text of 52 tokens needs 4 blocks; the whole KV cache has 3");
  refused([](TextRequest& text) { text.sampling.temperature = -1; }, "temperature");
  refused([](TextRequest& text) { text.biases = {{1 << 30, 1}}; }, "the token of a logit bias is 1073741824");
  EXPECT_TRUE(s.idle());
  for (const auto& [options, words] :
       {std::pair{Server::Options{.batch = {.tokens = 4, .requests = 4}}, "requests is 4; it must be 1 to 3"},
        std::pair{Server::Options{.cache_tokens = -1}, "cache_tokens is -1; it must be at least 1"},
        std::pair{Server::Options{.block_size = 0}, "block_size is 0; it must be at least 1"}}) {
    const auto made = Server::make(file_, Eager(Cpu(serial())), *tokenizer_, options);
    ASSERT_FALSE(made.has_value()) << words;
    EXPECT_NE(made.error().message().find(words), std::string::npos) << made.error().message();
  }

  Answer answers[2];
  TextRequest impossible{.prompt = {1, 2, 3}, .tokens = 4};
  for (Token token = 0; token < s.config().vocab; ++token) impossible.biases.push_back({token, -infinity});
  ASSERT_TRUE(s.submit(told(impossible, answers[0])));
  ASSERT_TRUE(s.submit(told({.prompt = {1, 2, 3}, .tokens = 4}, answers[1])));
  ASSERT_NO_FATAL_FAILURE(run_to_end(s));
  EXPECT_EQ(answers[0].end, End::failed);
  EXPECT_TRUE(answers[0].tokens.empty());
  EXPECT_FALSE(answers[0].failure.empty());
  EXPECT_EQ(answers[1].tokens.size(), 4u);
}

}  // namespace
}  // namespace inlay::exec
