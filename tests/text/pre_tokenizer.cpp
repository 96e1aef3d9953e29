// Where each pre-tokenizer cuts.
#include <inlay/text/pre_tokenizer.hpp>

#include <gtest/gtest.h>

#include <string>

#include "executor/text/word_splitter.hpp"

namespace inlay::exec::test {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view pre, std::string_view text) {
  const auto splitter = WordSplitter::make(pre);
  EXPECT_TRUE(splitter) << splitter.error().message();
  std::vector<std::string_view> words;
  EXPECT_TRUE(splitter->split(text, words));
  return {words.begin(), words.end()};
}

TEST(pre_tokenizer, digits_contractions_and_spaces) {
  const std::string text = "I'm 12345  ok!!\n\n x";
  EXPECT_EQ(split("gpt-2", text), (Words{"I", "'m", " 12345", " ", " ok", "!!", "\n\n", " x"}));
  EXPECT_EQ(split("llama-bpe", text), (Words{"I", "'m", " ", "123", "45", " ", " ok", "!!\n\n", " x"}));
  EXPECT_EQ(split("qwen2", text), (Words{"I", "'m", " ", "1", "2", "3", "4", "5", " ", " ok", "!!\n\n", " x"}));
  EXPECT_EQ(split("qwen2", "I'LL"), (Words{"I", "'LL"}));
  EXPECT_EQ(split("gpt-2", "I'LL"), (Words{"I", "'", "LL"}));
  EXPECT_EQ(split("default", "a<=1234"), (Words{"a", "<=", "123", "4"}));
}

// A digit is cut out before GPT-2's words are looked for: no space joins it, and what follows starts anew.
TEST(pre_tokenizer, smollm) {
  EXPECT_EQ(split("smollm", "I'm 12  ok"), (Words{"I", "'m", " ", "1", "2", " ", " ok"}));
  EXPECT_EQ(split("gpt-2", "a 1  2"), (Words{"a", " 1", " ", " 2"}));
  EXPECT_EQ(split("smollm", "a 1  2"), (Words{"a", " ", "1", "  ", "2"}));
}

// No contractions, a digit at a time, a slash ends a run of signs, and words end where capitals begin.
TEST(pre_tokenizer, tekken) {
  EXPECT_EQ(split("tekken", "don't WE'LL 12"), (Words{"don", "'t", " WE", "'LL", " ", "1", "2"}));
  EXPECT_EQ(split("tekken", "helloWorld HTMLParser ABc"), (Words{"hello", "World", " HTMLParser", " ABc"}));
  EXPECT_EQ(split("tekken", "a.b/\n/c"), (Words{"a", ".b", "/\n/", "c"}));
  EXPECT_EQ(split("qwen2", "a.b/\n/c"), (Words{"a", ".b", "/\n", "/c"}));
  EXPECT_EQ(split("tekken", "e\xcc\x81t\xc3\xa9"), (Words{"e\xcc\x81t\xc3\xa9"}));  // marks belong to words
  EXPECT_EQ(split("qwen2", "e\xcc\x81t"), (Words{"e", "\xcc\x81t"}));
}

// Words as tekken's, with the contraction behind them, and up to three digits.
TEST(pre_tokenizer, gpt_4o) {
  EXPECT_EQ(split("gpt-4o", "don't WE'LL 1234"), (Words{"don't", " WE'LL", " ", "123", "4"}));
  EXPECT_EQ(split("gpt-4o", "helloWorld's a/\n/c"), (Words{"hello", "World's", " a", "/\n/", "c"}));
}

// Digits by threes, then Chinese and kana, then a sign with the Latin letters behind it.
TEST(pre_tokenizer, deepseek) {
  EXPECT_EQ(split("deepseek-v3", "a_b .cd 12345"), (Words{"a", "_b", " .", "cd", " ", "123", "45"}));
  EXPECT_EQ(split("deepseek-v3", "a\xe4\xbd\xa0\xe3\x81\x82 \xed\x95\x9c!!\n x"),
            (Words{"a", "\xe4\xbd\xa0\xe3\x81\x82", " \xed\x95\x9c", "!!\n", " x"}));
  EXPECT_EQ(split("deepseek-coder", "x = 12;\n\n  y"), (Words{"x", " = ", "1", "2", ";", "\n", "\n", " ", " y"}));
}

// Letters with a case, then signs, each with one space before them; spaces that end the text; Chinese; digits.
TEST(pre_tokenizer, deepseek_llm) {
  EXPECT_EQ(split("deepseek-llm", "a_b  .cd 12"), (Words{"a", "_", "b", " ", " .", "cd", " ", "1", "2"}));
  EXPECT_EQ(split("deepseek-llm", "1 \xe4\xbd\xa0  "), (Words{"1", " ", "\xe4\xbd\xa0", "  "}));
  EXPECT_EQ(split("deepseek-llm", "\xd7\x90  \xd7\x90  "), (Words{"\xd7\x90  \xd7\x90", "  "}));
  EXPECT_EQ(split("deepseek-llm", "x\n  "), (Words{"x", "\n", "  "}));
  EXPECT_EQ(split("deepseek-llm", "\xc6\xbb\xd7\x90g"), (Words{"\xc6\xbb\xd7\x90", "g"}));  // U+01BB has no case
}

// As gpt-4o, with Chinese in words of its own.
TEST(pre_tokenizer, kimi_k2) {
  EXPECT_EQ(split("kimi-k2", "it's\xe4\xbd\xa0\xe5\xa5\xbdHi 1234"),
            (Words{"it's", "\xe4\xbd\xa0\xe5\xa5\xbd", "Hi", " ", "123", "4"}));
  EXPECT_EQ(split("kimi-k2", " \xe3\x81\x82\xe4\xbd\xa0"), (Words{" \xe3\x81\x82", "\xe4\xbd\xa0"}));
  // U+3006, which Chinese and Japanese share, is no letter of either script.
  EXPECT_EQ(split("kimi-k2", "a\xe3\x80\x86\xe4\xbd\xa0"), (Words{"a\xe3\x80\x86", "\xe4\xbd\xa0"}));
}

TEST(pre_tokenizer, marks_and_possessive_quantifiers) {
  EXPECT_EQ(split("qwen35", "e\xcc\x81t \xcc\x81!"), (Words{"e\xcc\x81t", " \xcc\x81", "!"}));
  EXPECT_EQ(split("bailingmoe", "I'LL 12!!\n\n x"), (Words{"I", "'LL", " ", "1", "2", "!!\n\n", " x"}));
  EXPECT_EQ(split("bailingmoe", "a\n\n\nb"), (Words{"a", "\n\n\n", "b"}));
}

TEST(pre_tokenizer, names_of_the_same_words) {
  for (const auto& [name, twin] :
       {std::pair{"llama3", "llama-bpe"}, {"smaug-bpe", "llama-bpe"}, {"deepseek-r1-qwen", "qwen2"}})
    EXPECT_EQ(split(name, "It's 12345\n\n  x"), split(twin, "It's 12345\n\n  x")) << name;
}

// White space is Unicode's: U+0085 and U+3000 are, U+180E and U+200B are not.
TEST(pre_tokenizer, white_space) {
  for (const char* name : {"gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "gpt-4o", "qwen35"}) {
    EXPECT_EQ(split(name, "a\xc2\x85\xe3\x80\x80\n"), (Words{"a", "\xc2\x85\xe3\x80\x80\n"})) << name;
    EXPECT_EQ(split(name, "a \xe1\xa0\x8e\xe2\x80\x8b"), (Words{"a", " \xe1\xa0\x8e\xe2\x80\x8b"})) << name;
  }
}

TEST(pre_tokenizer, bytes_that_are_no_characters_stand_alone) {
  EXPECT_EQ(split("gpt-2",
                  "a\xff\xfe"
                  "b"),
            (Words{"a", "\xff", "\xfe", "b"}));
}

TEST(pre_tokenizer, refuses_a_name_that_it_does_not_know) {
  const auto unknown = WordSplitter::make("glm4");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), StatusCode::unsupported);
  for (const std::string_view part : {"'glm4'", "gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "deepseek-r1-qwen"})
    EXPECT_NE(unknown.error().message().find(part), std::string_view::npos) << part;
}

}  // namespace
}  // namespace inlay::exec::test
