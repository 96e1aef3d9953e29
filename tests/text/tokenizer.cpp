// Tokenizers by hand, and on text of every kind. Against other programs: tests/model/tokenizer_files.cpp and
// tests/model/tokenizer_json.cpp.
#include <inlay/text/tokenizer.hpp>

#include <cmath>
#include <random>
#include <thread>

#include "tests/text/support/vocabularies.hpp"

namespace inlay::exec::test {
namespace {

TEST(tokenizer, qwen_splits_and_round_trips) {
  INLAY_NEEDS_DATA("tokenizers/qwen2.5_merges.txt");
  const TokenizerData data = qwen_vocabulary();
  EXPECT_EQ(data.merges.size(), 151387u);
  EXPECT_EQ(data.tokens.size() - 3, 151643u);
  const auto made = Tokenizer::make(data);
  ASSERT_TRUE(made) << made.error().message();
  for (const std::string& text : texts) expect_round_trip(*made, text);
  const auto pieces = [&](std::string_view text) {
    std::vector<std::string> parts;
    for (const Token id : encode(*made, text)) parts.push_back(made->piece(id));
    return parts;
  };
  // Known ids: published with the model's examples.
  EXPECT_EQ(encode(*made, "Hello, world!"), (std::vector<Token>{9707, 11, 1879, 0}));
  // One digit at a time; a run of spaces leaves its last one to the word.
  EXPECT_EQ(pieces("123"), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(pieces("a   b"), (std::vector<std::string>{"a", "  ", " b"}));
  EXPECT_EQ(pieces("I'll"), (std::vector<std::string>{"I", "'ll"}));
  EXPECT_EQ(pieces("I'LL"), (std::vector<std::string>{"I", "'", "LL"}));  // one word of two tokens
  const Token end = made->find("<|im_end|>");
  EXPECT_EQ(end, 151645);
  EXPECT_TRUE(made->stops(end));
  EXPECT_EQ(encode(*made, "a<|im_end|>b"), (std::vector<Token>{64, end, 65}));
  EXPECT_EQ(made->piece(end), "");
  const auto letters = encode(*made, "<|im_end|>", plain);
  EXPECT_GT(letters.size(), 1u);
  EXPECT_EQ(made->decode(letters), "<|im_end|>");
}

TEST(tokenizer, every_byte_survives) {
  std::string all;
  for (unsigned b = 0; b < 256; ++b) (all += static_cast<char>(b)) += b % 3 ? "x" : " ";
  std::mt19937 random(1);
  std::string noise;
  for (int i = 0; i < 4000; ++i) noise += static_cast<char>(random());
  TokenizerData bytes = bpe_vocabulary("gpt-2", "", {"<|endoftext|>"});
  for (const TokenizerData& data : {tiny_vocabulary(), bytes}) {
    const auto t = Tokenizer::make(data);
    ASSERT_TRUE(t) << t.error().message();
    for (const std::string& text : {all, noise}) EXPECT_EQ(t->decode(encode(*t, text)), text);
    for (const std::string& text : texts) expect_round_trip(*t, text);
  }
  // NFC leaves bytes that are no characters where they are.
  bytes.nfc = true;
  const auto t = Tokenizer::make(bytes);
  ASSERT_TRUE(t) << t.error().message();
  const std::string text =
                        "\xcc\xff"
                        "e\xcc\x81\xcc",
                    nfc = "\xcc\xff\xc3\xa9\xcc";
  EXPECT_EQ(t->decode(encode(*t, text)), nfc);
  EXPECT_EQ(t->decode(encode(*t, all)), all);
}

TEST(tokenizer, spm_by_hand) {
  const auto t = Tokenizer::make(tiny_vocabulary());
  ASSERT_TRUE(t);
  const Token a = 259, b = 260, ab = 261, space = 262, space_ab = 263;
  EXPECT_EQ(encode(*t, "ab"), (std::vector<Token>{1, space_ab}));  // "ab" first, then the space joins it
  EXPECT_EQ(encode(*t, "ab", plain), (std::vector<Token>{space_ab}));
  EXPECT_EQ(encode(*t, "bab", plain), (std::vector<Token>{space, b, ab}));
  EXPECT_EQ(encode(*t, "ba", plain), (std::vector<Token>{space, b, a}));
  EXPECT_EQ(encode(*t, "a\n", plain), (std::vector<Token>{space, a, 3 + 10}));
  EXPECT_EQ(encode(*t, "</s>", plain).size(), 5u);  // its letters, as bytes
  EXPECT_EQ(encode(*t, "b</s>b"), (std::vector<Token>{1, space, b, 2, space, b}));
  EXPECT_EQ(t->decode(std::vector<Token>{1, space_ab, space_ab}), "ab ab");
  EXPECT_EQ(t->decode(std::vector<Token>{-1, 1000, a}), "a");
  EXPECT_EQ(t->piece(0), "\xef\xbf\xbd");
  StreamDecoder middle(*t);  // in the middle of a text the space stays
  EXPECT_EQ(middle.push(space_ab), " ab");
}

// `a<sep>b`: a piece of SentencePiece's own is text, and no space is put behind it; one that was added from outside
// cuts.
TEST(tokenizer, spm_user_defined_pieces_are_text_and_added_ones_cut) {
  TokenizerData data = tiny_vocabulary();
  data.tokens.push_back("<sep>"), data.types.push_back(TokenizerData::TokenType::user_defined),
      data.scores.push_back(0);
  const Token a = 259, b = 260, space = 262, sep = 264;
  const auto piece = Tokenizer::make(data);
  data.added = {sep};
  const auto cut = Tokenizer::make(data);
  data.space_after_special = false;
  const auto later = Tokenizer::make(data);
  ASSERT_TRUE(piece && cut && later);
  EXPECT_EQ(encode(*piece, "a<sep>b", plain), (std::vector<Token>{space, a, sep, b}));
  EXPECT_EQ(encode(*piece, "<sep>b", plain), (std::vector<Token>{space, sep, b}));
  EXPECT_EQ(encode(*cut, "a<sep>b", plain), (std::vector<Token>{space, a, sep, space, b}));
  EXPECT_EQ(encode(*cut, "<sep>b", plain), (std::vector<Token>{sep, space, b}));
  EXPECT_EQ(encode(*later, "a<sep>b</s>b"), (std::vector<Token>{1, space, a, sep, b, 2, b}));
  for (const auto* t : {&*piece, &*cut, &*later})
    for (const char* text : {"a<sep>b", "<sep>b", " <sep> b", "  a<sep><sep>  b "})
      EXPECT_EQ(t->decode(encode(*t, text)), text);
}

// Pieces that SentencePiece marks unused merge, and are taken apart at the end.
TEST(tokenizer, spm_unused_pieces_are_taken_apart) {
  TokenizerData data = tiny_vocabulary();
  const Token first = static_cast<Token>(data.tokens.size());
  using Type = TokenizerData::TokenType;
  for (const auto& [text, type] : {std::pair{"t", Type::normal},
                                   {"h", Type::normal},
                                   {"e", Type::normal},
                                   {"th", Type::unused},
                                   {"he", Type::unused},
                                   {"\xe2\x96\x81t", Type::unused},
                                   {"the", Type::normal},
                                   {"\xe2\x96\x81the", Type::normal}})
    data.tokens.push_back(text), data.types.push_back(type), data.scores.push_back(0);
  const auto t = Tokenizer::make(data);
  ASSERT_TRUE(t);
  const Token space = 262, letter_t = first, letter_h = first + 1, the = first + 7;
  EXPECT_EQ(encode(*t, "the", plain), (std::vector<Token>{the}));  // by way of the unused ones
  EXPECT_EQ(encode(*t, "th", plain), (std::vector<Token>{space, letter_t, letter_h}));
}

// "b c" is listed before "a b", and again behind it.
TEST(tokenizer, a_repeated_merge_has_its_last_rank) {
  const auto pieces = [](const std::string& merges) {
    TokenizerData data = bpe_vocabulary("gpt-2", merges, {"<x>"});
    const auto t = Tokenizer::make(data);
    EXPECT_TRUE(t) << t.error().message();
    std::vector<std::string> all;
    for (const Token id : encode(*t, "abc")) all.push_back(t->piece(id));
    return all;
  };
  EXPECT_EQ(pieces("b c\na b"), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(pieces("b c\na b\nb c"), (std::vector<std::string>{"ab", "c"}));
}

// White space around special tokens; "\n" is one that lies in what "<x>" swallows. As Hugging Face has it.
TEST(tokenizer, special_tokens_swallow_white_space) {
  TokenizerData data = bpe_vocabulary("gpt-2", "", {"<x>", "\n", "<y>"});
  const Token a = 64, b = 65, space = 220, x = 256, line = 257, y = 258;
  data.rstrip = {x}, data.lstrip = {y};
  const auto t = Tokenizer::make(data);
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(encode(*t, "a <x>  b"), (std::vector<Token>{a, space, x, b}));
  EXPECT_EQ(encode(*t, "<x>\n b"), (std::vector<Token>{x, line, space, b}));
  EXPECT_EQ(encode(*t, "a \t<y> b"), (std::vector<Token>{a, y, space, b}));
  EXPECT_EQ(encode(*t, "<x>  <y>"), (std::vector<Token>{x, y}));
  data.single_word = {x, y};
  const auto words = Tokenizer::make(data);
  ASSERT_TRUE(words) << words.error().message();
  EXPECT_EQ(encode(*words, "a<x>").size(), 4u);
  EXPECT_EQ(encode(*words, "<x>b").size(), 4u);
  EXPECT_EQ(encode(*words, "a <x>-"), (std::vector<Token>{a, space, x, 12}));
}

TEST(tokenizer, no_letters_merge_into_a_control_token) {
  TokenizerData data = bpe_vocabulary("gpt-2", "a b", {"<x>"});
  data.types[256] = TokenizerData::TokenType::control;
  const auto t = Tokenizer::make(data);
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(encode(*t, "ab", plain), (std::vector<Token>{64, 65}));
}

// One end is what the file calls eos. The others count as well: all that a file names, and names that models end turns
// with.
TEST(tokenizer, ends_of_text_are_a_set) {
  TokenizerData data =
      bpe_vocabulary("qwen2", "", {"<|end|>", "<|eom_id|>", "<end_of_turn>", "<EOT>", "<|x|>", "<eos>"});
  data.ends = {70, 71};
  const auto t = Tokenizer::make(data);
  ASSERT_TRUE(t);
  for (const Token id : {70, 71, 256, 257, 258, 259, 261}) EXPECT_TRUE(t->stops(id)) << id;
  for (const Token id : {-1, 0, 69, 72, 260, 262}) EXPECT_FALSE(t->stops(id)) << id;
  const auto others = Tokenizer::make(bpe_vocabulary(
      "gpt-4o", "",
      {"<|eot|>", "<|eom|>", "[e~[", "<turn|>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|turn>", "<x>"}));
  ASSERT_TRUE(others);
  for (const Token id : {256, 257, 258, 259, 260}) EXPECT_TRUE(others->stops(id)) << id;
  EXPECT_FALSE(others->stops(261));
  // A piece of SentencePiece's own, as Gemma's, but no ordinary word.
  TokenizerData pieces = tiny_vocabulary();
  using Type = TokenizerData::TokenType;
  for (const auto& [text, type] : {std::pair{"<end_of_turn>", Type::user_defined}, {"<EOT>", Type::normal}})
    pieces.tokens.push_back(text), pieces.types.push_back(type), pieces.scores.push_back(0);
  const auto gemma = Tokenizer::make(pieces);
  ASSERT_TRUE(gemma);
  EXPECT_TRUE(gemma->stops(2) && gemma->stops(264));
  EXPECT_FALSE(gemma->stops(265));
  TokenizerData html = pieces;  // Gemma's </s> ends what is struck out
  html.eos = TokenizerData::no_token, html.types[2] = Type::user_defined;
  ASSERT_EQ(html.tokens[2], "</s>");
  EXPECT_FALSE(Tokenizer::make(html)->stops(2));
  // gpt-oss: <|end|> ends a channel of an answer that goes on.
  const auto harmony = Tokenizer::make(bpe_vocabulary("qwen2", "", {"<|end|>", "<|return|>", "<|call|>"}));
  ASSERT_TRUE(harmony);
  EXPECT_FALSE(harmony->stops(256));
  EXPECT_TRUE(harmony->stops(257) && harmony->stops(258));
}

TEST(tokenizer, spm_removes_extra_spaces_where_the_file_asks_for_it) {
  TokenizerData data = tiny_vocabulary();
  data.remove_extra_spaces = true;
  const auto t = Tokenizer::make(data);
  ASSERT_TRUE(t);
  const Token a = 259, space = 262, space_ab = 263;
  EXPECT_EQ(encode(*t, "  a   ab ", plain), (std::vector<Token>{space, a, space_ab}));
  EXPECT_EQ(encode(*t, "   ", plain), std::vector<Token>{});
  EXPECT_EQ(encode(*t, "a \n a", plain), (std::vector<Token>{space, a, space, 3 + 10, space, a}));
}

// "<x>" is looked for in the text as it is, "<e\u0301>" in NFC and in what is left over.
TEST(tokenizer, normalized_special_tokens_come_second) {
  TokenizerData data = bpe_vocabulary("qwen2", "", {"<x>", "<e\xcc\x81>", "a<"});
  const Token x = 256, e = 257, overlapping = 258;
  data.normalized = {e, overlapping};
  const auto t = Tokenizer::make(data);
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(encode(*t, "<x><e\xcc\x81><\xc3\xa9>"), (std::vector<Token>{x, e, e}));
  EXPECT_EQ(encode(*t, "a<x>a<"), (std::vector<Token>{64, x, overlapping}));  // left of <x>, and yet <x> is taken
  data.nfc = false;
  const auto raw = Tokenizer::make(data);
  ASSERT_TRUE(raw) << raw.error().message();
  EXPECT_EQ(encode(*raw, "<e\xcc\x81>"), (std::vector<Token>{e}));
  EXPECT_EQ(encode(*raw, "<\xc3\xa9>").size(), 4u);
}

TEST(tokenizer, characters_split_over_tokens_come_out_whole) {
  const auto t = Tokenizer::make(tiny_vocabulary());
  ASSERT_TRUE(t);
  StreamDecoder stream(*t);
  const auto byte = [&](unsigned value) { return stream.push(static_cast<Token>(3 + value)); };
  EXPECT_EQ(byte(0xf0), "");
  EXPECT_EQ(byte(0x9f), "");
  EXPECT_EQ(byte(0xa6), "");
  EXPECT_EQ(byte(0x99), "\xf0\x9f\xa6\x99");
  EXPECT_EQ(byte(0xe2), "");
  EXPECT_EQ(byte('x'), "\xe2x");  // broken: nothing would ever complete it
  EXPECT_EQ(byte(0xff), "\xff");
  EXPECT_EQ(byte(0xc3), "");
  EXPECT_EQ(stream.finish(), "\xc3");
  EXPECT_EQ(stream.finish(), "");
}

TEST(tokenizer, threads_may_share_one) {
  INLAY_NEEDS_DATA("tokenizers/qwen2.5_merges.txt");
  const auto tokenizer = Tokenizer::make(qwen_vocabulary());
  ASSERT_TRUE(tokenizer);
  std::vector<std::vector<Token>> results(3);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] {
      for (const std::string& text : texts)
        for (const Token id : encode(*tokenizer, text)) result.push_back(id);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(tokenizer, refuses_vocabularies_that_do_not_fit_together) {
  const auto refused = [](auto change, const char* word) {
    TokenizerData data = tiny_vocabulary();
    change(data);
    const auto tokenizer = Tokenizer::make(data);
    ASSERT_FALSE(tokenizer);
    EXPECT_NE(tokenizer.error().message().find(word), std::string_view::npos) << tokenizer.error().message();
  };
  refused([](TokenizerData& t) { t.kind = TokenizerData::Kind::none; }, "no tokenizer");
  refused([](TokenizerData& t) { t.problem = "why not"; }, "why not");
  refused([](TokenizerData& t) { t.scores.pop_back(); }, "scores");
  refused([](TokenizerData& t) { t.types.pop_back(); }, "types");
  refused([](TokenizerData& t) { t.scores[260] = NAN; }, "NaN");
  refused([](TokenizerData& t) { t.tokens[5] = "<0xZZ>"; }, "byte token 5");
  refused([](TokenizerData& t) { t.kind = TokenizerData::Kind::bpe, t.pre = "x"; }, "'x'");
  refused([](TokenizerData& t) { t.kind = TokenizerData::Kind::bpe, t.pre = "gpt-2", t.merges = {"a c"}; }, "'a c'");
  refused([](TokenizerData& t) { t.kind = TokenizerData::Kind::bpe, t.pre = "gpt-2", t.merges = {"nospace"}; },
          "'nospace'");
}

}  // namespace
}  // namespace inlay::exec::test
