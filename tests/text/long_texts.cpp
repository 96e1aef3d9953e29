// Vocabularies and texts that are made to take long: all of it in proportion to their length.
#include <array>
#include <random>
#include <unordered_set>

#include "executor/text/nfc.hpp"
#include "executor/text/seeded_hash.hpp"
#include "executor/text/special_tokens.hpp"
#include "executor/text/word_splitter.hpp"
#include "tests/support/growth.hpp"
#include "tests/text/support/vocabularies.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::Growth;

// For texts of which a quiet machine needs a tenth of this; in quadratic time it was ten times as much.
const double max_seconds = inlay::test::at_most_seconds(3);

Tokenizer make(const TokenizerData& data) {
  auto made = Tokenizer::make(data);
  EXPECT_TRUE(made) << made.error().message();
  return *made;
}

// A vocabulary of bytes and these.
struct Specials {
  std::vector<std::string> texts;
  TokenizerData data = bpe_vocabulary("gpt-2", "", {"<end>"});

  void finish() {
    data.types.resize(data.tokens.size() + texts.size(), TokenizerData::TokenType::control);
    for (const std::string& text : texts) data.tokens.push_back(text);
  }
};

std::string repeated(std::string_view unit, std::size_t size) {
  std::string text;
  while (text.size() < size) text += unit;
  return text;
}

// Was 15 s: each of them was tried at each place.
TEST(long_texts, forty_five_thousand_control_tokens) {
  Specials s;
  for (int i = 0; i < 45000; ++i) s.texts.push_back("<" + std::to_string(i) + ">");
  s.finish();
  const std::string text = repeated("<<<<<<<<44999", 200000);
  const Growth growth;
  const auto ids = encode(make(s.data), text);
  EXPECT_LE(growth.seconds(), max_seconds);
  EXPECT_EQ(ids.size(), text.size());
}

// Each place of the text is the beginning of a long one, almost.
TEST(long_texts, control_tokens_of_one_letter) {
  Specials s;
  for (std::size_t length = 2; length < 2000; ++length) s.texts.push_back(std::string(length, 'a') + "!");
  s.finish();
  const std::string text(400000, 'a');
  const Growth growth;
  EXPECT_EQ(encode(make(s.data), text).size(), text.size());
  EXPECT_LE(growth.seconds(), max_seconds);
}

TEST(long_texts, each_token_asks_whether_it_is_looked_for_in_normal_form) {
  Specials s;
  for (int i = 0; i < 300000; ++i) s.texts.push_back("<" + std::to_string(i) + ">");
  for (int i = 0; i < 300000; ++i) s.data.normalized.push_back(static_cast<Token>(1 << 20));
  s.finish();
  const Growth growth;
  make(s.data);
  EXPECT_LE(growth.seconds(), max_seconds);
}

// Each line break is a token that would walk over all of those behind it.
TEST(long_texts, tokens_that_swallow_themselves) {
  TokenizerData data = bpe_vocabulary("gpt-2", "", {"\n", "<x>"});
  data.rstrip = {256}, data.lstrip = {256, 257};
  const Growth growth;
  const Tokenizer both = make(data);
  EXPECT_EQ(encode(both, std::string(400000, '\n')).size(), 1u);
  data.lstrip = {};
  EXPECT_EQ(encode(make(data), std::string(400000, '\n')).size(), 400000u);
  EXPECT_EQ(encode(both, repeated("<x>    ", 400000)).size(), 400000u / 7 + 1 + 4);
  EXPECT_LE(growth.seconds(), max_seconds);
}

// Keys that leave the same remainder for the count of buckets: the pairs of ids in a list of merges are the file's.
TEST(long_texts, keys_made_for_one_bucket) {
  std::unordered_set<std::uint64_t, SeededHash> keys;
  keys.reserve(20000);
  const std::uint64_t step = keys.bucket_count();
  for (std::uint64_t i = 0; i < 20000; ++i) keys.insert(i * step);
  std::size_t most = 0;
  for (std::size_t i = 0; i < keys.bucket_count(); ++i) most = std::max(most, keys.bucket_size(i));
  EXPECT_LT(most, 30u);
}

// All of it, and whoever comes first: against looking at each token in turn.
TEST(long_texts, special_tokens_are_the_leftmost_and_longest) {
  std::mt19937 random(3);
  const auto word = [&](std::size_t most) {
    std::string text;
    for (auto size = random() % most + 1; size > 0; --size) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<SpecialTokens::Entry> entries;
    const auto count = static_cast<std::int32_t>(random() % 8);
    for (std::int32_t i = 0; i < count; ++i) entries.push_back({word(6), i, random() % 2 == 0, random() % 3 == 0});
    const SpecialTokens tokens(entries);
    const std::string text = word(30);
    for (const bool parse : {true, false})
      for (const bool normalized : {true, false}) {
        std::vector<std::array<std::size_t, 3>> found, expected;
        for (const auto& each : tokens.find(text, parse, normalized))
          found.push_back({each.begin, each.end - each.begin, static_cast<std::size_t>(each.id)});
        for (std::size_t at = 0; at < text.size();) {
          const SpecialTokens::Entry* best = nullptr;
          for (const auto& each : entries)
            if ((parse || each.always) && each.normalized == normalized &&
                text.compare(at, each.text.size(), each.text) == 0 && (!best || each.text.size() > best->text.size()))
              best = &each;
          if (best) expected.push_back({at, best->text.size(), static_cast<std::size_t>(best->id)});
          at += best ? best->text.size() : 1;
        }
        ASSERT_EQ(found, expected) << text;
      }
    for (const std::string& each : {text, count > 0 ? entries[0].text : "a"}) {
      const auto at = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.text == each; });
      ASSERT_EQ(tokens.find(each), at == entries.end() ? -1 : at->id);
    }
  }
}

// Beyond ten million steps back PCRE2 gave up: spaces for most rules, capitals for tekken.
TEST(long_texts, runs_of_twelve_million) {
  const Growth growth;
  for (const auto& [pre, unit] : {std::pair{"gpt-2", ' '}, {"llama-bpe", ' '}, {"qwen2", '\n'}, {"tekken", 'A'}}) {
    const auto splitter = WordSplitter::make(pre);
    ASSERT_TRUE(splitter);
    const std::string text(30000000, unit);
    std::vector<std::string_view> words;
    const Status status = splitter->split(text, words);
    ASSERT_TRUE(status) << pre << ": " << status.message();
    ASSERT_EQ(words.size(), 1u) << pre;
    EXPECT_EQ(words[0].size(), text.size());
  }
  EXPECT_LE(growth.seconds(), max_seconds);
}

// Unanchored steps look at each place of what they do not match.
TEST(long_texts, runs_for_every_name) {
  const Growth growth;
  for (const PreTokenizer& each : pre_tokenizers()) {
    const auto splitter = WordSplitter::make(each.name);
    ASSERT_TRUE(splitter);
    for (const char* unit :
         {" ", "\n", "A", "a", "!", "1", "\x01", "\xcc\x81", "\xe4\xbd\xa0", " \xc2\xa0", "aA", "'", "' "}) {
      const std::string text = repeated(unit, 50000);
      std::vector<std::string_view> words;
      ASSERT_TRUE(splitter->split(text, words)) << each.name;
      std::size_t size = 0;
      for (const std::string_view word : words) size += word.size();
      EXPECT_EQ(size, text.size()) << each.name << " " << unit;
    }
  }
  EXPECT_LE(growth.seconds(), max_seconds);
}

// utf8proc sorts marks by exchanging neighbours: 160 KB of them took 33 s.
TEST(long_texts, marks_in_the_wrong_order) {
  const std::string above = "\xcc\x81", below = "\xcc\xa3";  // classes 230 and 220
  const std::size_t size = 80000;
  const std::string text = "a" + repeated(above, size) + repeated(below, size);
  const Growth growth;
  const auto nfc = to_nfc(text);
  EXPECT_LE(growth.seconds(), max_seconds);
  ASSERT_TRUE(nfc);
  // U+1EA1, which has one mark below in it, and then the acutes.
  EXPECT_EQ(*nfc, "\xe1\xba\xa1" + repeated(below, size - below.size()) + repeated(above, size));
}

// Orders of marks, and what composes across them: every normal form of it comes to the same.
TEST(long_texts, the_order_of_marks_of_different_classes_does_not_count) {
  const char* const marks[] = {"\xcc\x81", "\xcc\xa3", "\xcc\xa7", "\xcc\xb8"};  // classes 230, 220, 202, 1
  for (const char* base : {"e", "a", "\xe1\xba\xa1", "\xce\x91", "\xe1\xbe\xbc", "\xf0\x9d\x85\x9e", "\xe0\xbd\xb3"}) {
    std::array<int, 4> order{0, 1, 2, 3};
    std::string first;
    do {
      std::string text = base;
      for (const int mark : order) text += marks[mark];
      const auto nfc = to_nfc(text);
      ASSERT_TRUE(nfc);
      if (first.empty()) first = *nfc;
      EXPECT_EQ(*nfc, first) << text;
      EXPECT_EQ(*to_nfc(*nfc), *nfc);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  EXPECT_EQ(*to_nfc("e\xcc\x81\xcc\xa3"), "\xe1\xba\xb9\xcc\x81");
  EXPECT_EQ(*to_nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), "\xed\x95\x9c");  // Hangul
  EXPECT_EQ(*to_nfc("\xe2\x84\xab"), "\xc3\x85");                              // the sign of the unit
}

}  // namespace
}  // namespace inlay::exec::test
