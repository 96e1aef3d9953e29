// What a request may ask of a generation: biases, going on where a text differs, and an end between two tokens.
#include <inlay/exec/generate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tests/exec/support/random_session.hpp"

namespace inlay::exec {
namespace {

using test::all, test::distance, test::session, test::tiny, test::tokens;

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(logit_bias, is_added_before_the_token_is_drawn) {
  const ModelConfig config = tiny();
  Session s = session(config, "f32", Eager(Reference{}), {.kv_type = DType::f32});
  ASSERT_TRUE(s.append(tokens(9, config.vocab)).ok());
  const Sampling<Host> greedy{.logits = {}, .tokens = {}, .temperature = 0};
  const Token likeliest = *s.sample(greedy);
  const std::vector<LogitBias> nothing{{5, 0}}, never{{likeliest, -infinity}}, always{{7, 1e6f}},
      twice{{7, 5e5f}, {7, 5e5f}};
  EXPECT_EQ(*s.sample(greedy, nothing), likeliest);
  EXPECT_NE(*s.sample(greedy, never), likeliest);
  EXPECT_EQ(*s.sample(greedy, always), 7);
  EXPECT_EQ(*s.sample(greedy, twice), 7);
  EXPECT_EQ(*s.sample(greedy), likeliest);  // the session's own logits are as they were
  // The same draws as without a bias, of every seed.
  for (int seed = 0; seed < 50; ++seed) {
    const Sampling<Host> drawn{.logits = {}, .tokens = {}, .top_k = 20, .seed = seed};
    EXPECT_EQ(*s.sample(drawn, nothing), *s.sample(drawn));
  }
  // Before penalties, which divide: a bias behind them would leave more of it.
  const std::vector<Token> history{7};
  const Sampling<Host> penalised{
      .logits = {}, .history = {history.data(), {1, 1}}, .tokens = {}, .temperature = 0, .repetition_penalty = 1e3f};
  const std::vector<LogitBias> some{{7, 100}};
  EXPECT_NE(*s.sample(penalised, some), 7);
  for (const auto& [bias, words] :
       {std::pair{LogitBias{101, 1}, "the token of a logit bias is 101; it must be in 0..100"},
        std::pair{LogitBias{-1, 1}, "the token of a logit bias is -1; it must be in 0..100"},
        std::pair{LogitBias{3, infinity}, "the bias of token 3 is inf; it must be finite or -infinity"},
        std::pair{LogitBias{3, NAN}, "the bias of token 3 is nan; it must be finite or -infinity"}}) {
    const auto refused = s.sample(greedy, std::vector{bias});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), words);
  }
}

TEST(truncate, goes_on_as_if_the_rest_had_never_been) {
  const ModelConfig config = tiny();
  const auto text = tokens(40, config.vocab);
  Session whole = session(config, "f32", Eager(Reference{}), {.kv_type = DType::f32});
  const auto expected = all(whole, whole.append(text));
  Session cut = session(config, "f32", Eager(Reference{}), {.kv_type = DType::f32});
  std::vector<Token> other(text.begin(), text.begin() + 25);
  for (int i = 0; i < 30; ++i) other.push_back(static_cast<Token>(i));
  ASSERT_TRUE(cut.append(other).ok());
  ASSERT_TRUE(cut.truncate(25).ok());
  EXPECT_EQ(cut.length(), 25);
  EXPECT_FALSE(cut.sample({.logits = {}, .tokens = {}}));  // there are no logits
  EXPECT_LE(distance(all(cut, cut.append({text.begin() + 25, text.end()})), expected), 1e-5);
  EXPECT_EQ(cut.truncate(41).message(), "length is 41; it must be in 0..40, the tokens that there are");
  EXPECT_EQ(cut.truncate(-1).message(), "length is -1; it must be in 0..40, the tokens that there are");
  // The whole context is there again.
  ASSERT_TRUE(cut.truncate(0).ok());
  EXPECT_TRUE(cut.append(tokens(config.context, config.vocab)).ok());
}

// A tokenizer whose ids are bytes: none of them ends a text.
Tokenizer of_bytes() {
  TokenizerData data{.kind = TokenizerData::Kind::spm};
  auto names = std::make_shared<std::vector<std::string>>();
  for (int i = 0; i < 101; ++i) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(i));
    names->emplace_back(name);
  }
  data.tokens.assign(names->begin(), names->end());
  data.types.assign(101, TokenizerData::TokenType::byte);
  data.scores.assign(101, 0);
  data.text.push_back(names);
  return *Tokenizer::make(data);
}

TEST(generate, does_not_compute_again_what_the_session_keeps) {
  const ModelConfig config = tiny();
  const Tokenizer tokenizer = of_bytes();
  const auto prompt = tokens(30, config.vocab);
  const auto write = [&](Session& s, const GenerateOptions& options, Generation& result) {
    std::vector<Token> answer;
    const auto done = generate(s, tokenizer, prompt, options, [&](Token token) {
      answer.push_back(token);
      return true;
    });
    EXPECT_TRUE(done) << done.error().message();
    if (done) result = *done;
    return answer;
  };
  Session whole = session(config, "f32", Eager(Reference{}), {.chunk = 7, .kv_type = DType::f32});
  Generation all_of_it, rest;
  GenerateOptions options{.tokens = 12,
                          .sampling = {.logits = {}, .tokens = {}, .temperature = 0, .repetition_penalty = 1.3f}};
  const auto expected = write(whole, options, all_of_it);
  EXPECT_EQ(all_of_it.prompt_tokens, 30);
  Session part = session(config, "f32", Eager(Reference{}), {.chunk = 7, .kv_type = DType::f32});
  ASSERT_TRUE(part.append({prompt.begin(), prompt.begin() + 20}).ok());
  options.kept = 20;
  std::vector<index> told;
  options.progress = [&](index done, index all) {
    EXPECT_EQ(all, 10);
    told.push_back(done);
  };
  EXPECT_EQ(write(part, options, rest), expected);  // and penalties see what was kept
  EXPECT_EQ(rest.prompt_tokens, 10);
  EXPECT_EQ(told, (std::vector<index>{7, 10}));
  for (const index kept : {index{-1}, index{30}}) {
    options.kept = kept;
    const auto refused = generate(part, tokenizer, prompt, options, [](Token) { return true; });
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("kept is " + std::to_string(kept)), std::string::npos);
  }
}

TEST(generate, is_interrupted_between_chunks_and_between_tokens) {
  const ModelConfig config = tiny();
  Session s = session(config, "f32", Eager(Reference{}), {.chunk = 4, .kv_type = DType::f32});
  int asked = 0, written = 0;
  GenerateOptions options{.tokens = 12};
  options.interrupted = [&] { return ++asked > 2; };
  const auto emit = [&](Token) { return ++written, true; };
  auto result = generate(s, of_bytes(), tokens(30, config.vocab), options, emit);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->end, Generation::End::caller);
  EXPECT_EQ(s.length(), 8);
  EXPECT_EQ(written, 0);
  s.reset();
  asked = -8;  // once for each chunk
  result = generate(s, of_bytes(), tokens(30, config.vocab), options, emit);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->end, Generation::End::caller);
  EXPECT_EQ(written, 3);
}

}  // namespace
}  // namespace inlay::exec
