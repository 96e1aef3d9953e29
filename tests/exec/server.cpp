// Who asks a server is answered as generate() answers, and told once how it ended.
#include <inlay/exec/serve/server.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
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
  // Its tokens go to `answer`, which must stay; it ends itself behind `most`.
  static TextRequest told(TextRequest text, Answer& answer, index most = 1 << 20) {
    text.emit = [&answer, most](index, Token token) {
      answer.tokens.push_back(token);
      return static_cast<index>(answer.tokens.size()) < most;
    };
    text.ended = [&answer](index, End end, const Status& status) {
      EXPECT_FALSE(answer.end) << "it ended twice";
      answer.end = end;
      if (!status.ok()) answer.failure = status.message();
    };
    return text;
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
    while (!s.idle()) ASSERT_TRUE(ok(s.step()));
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
  while (!s.idle()) ASSERT_TRUE(ok(s.step()));
  for (int steps = 0; steps < 25; steps += 3) {
    SCOPED_TRACE(steps);
    std::vector<Answer> answers(asked.size());
    std::vector<index> numbers;
    for (std::size_t i = 0; i < asked.size(); ++i)
      numbers.push_back(*s.submit(told(asked[i], answers[i], i % 4 == 3 ? 2 : 1 << 20)));
    for (int step = 0; step < steps; ++step) ASSERT_TRUE(ok(s.step()));
    for (std::size_t i = 0; i < asked.size(); i += 5) s.abort(numbers[i]), s.abort(numbers[i]);
    while (!s.idle()) ASSERT_TRUE(ok(s.step()));
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
    while (!s.idle()) ASSERT_TRUE(ok(s.step()));
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
  while (!s.idle()) ASSERT_TRUE(ok(s.step()));
  EXPECT_EQ(answers[0].end, End::failed);
  EXPECT_TRUE(answers[0].tokens.empty());
  EXPECT_FALSE(answers[0].failure.empty());
  EXPECT_EQ(answers[1].tokens.size(), 4u);
}

}  // namespace
}  // namespace inlay::exec
