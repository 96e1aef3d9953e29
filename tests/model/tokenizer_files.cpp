// Vocabularies from files, against llama.cpp's own test vectors and against each other.
#include <inlay/model/load.hpp>
#include <inlay/text/tokenizer.hpp>

#include <chrono>
#include <cstdio>
#include <random>

#include <nlohmann/json.hpp>

#include "executor/model/gguf/vocabulary.hpp"
#include "executor/model/sentencepiece.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/model/support/unchecked_gguf.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec::test {
namespace {

Tokenizer load(const std::string& path) {
  const auto file = GgufFile::open(path);
  EXPECT_TRUE(file) << file.error().message();
  const auto vocabulary = read_gguf_vocabulary(*file);
  EXPECT_TRUE(vocabulary) << vocabulary.error().message();
  auto tokenizer = Tokenizer::make(*vocabulary);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return *tokenizer;
}

struct Vector {
  std::string text;
  std::vector<Token> ids;
};

std::vector<Vector> vectors(const std::string& path) {
  const std::string input = read_text(path + ".inp"), separator = "\n__ggml_vocab_test__\n";
  std::vector<Vector> all;
  for (std::size_t at = 0; at < input.size();) {
    const std::size_t end = std::min(input.find(separator, at), input.size());
    all.push_back({input.substr(at, end - at), {}});
    at = end + separator.size();
  }
  std::ifstream output(path + ".out");
  std::size_t lines = 0;
  for (std::string line; std::getline(output, line); ++lines) {
    std::istringstream numbers(line);
    for (Token id; numbers >> id;) all.at(lines).ids.push_back(id);
  }
  EXPECT_EQ(lines, all.size());
  return all;
}

TEST(tokenizer_files, llama_cpp_vectors) {
  INLAY_NEEDS_DATA("tokenizers");
  for (const char* name : {"llama-spm", "gpt-2"}) {
    const std::string path = shared_data + "tokenizers/ggml-vocab-" + name + ".gguf";
    const Tokenizer tokenizer = load(path);
    const auto all = vectors(path);
    EXPECT_EQ(all.size(), 46u);
    for (const Vector& each : all) {
      SCOPED_TRACE(std::string(name) + ": " + each.text);
      EXPECT_EQ(encode(tokenizer, each.text, plain), each.ids);
      EXPECT_EQ(tokenizer.decode(each.ids), each.text);
    }
    for (const std::string& text : texts) expect_round_trip(tokenizer, text);
  }
}

TEST(tokenizer_files, sentencepiece_file_equals_llama2c_file) {
  INLAY_NEEDS_DATA("stories260K/");
  const std::string place = shared_data + "stories260K/";
  const auto model = load_llama2c(place + "stories260K.bin", place + "tok512.bin");
  ASSERT_TRUE(model) << model.error().message();
  const auto pieces = read_sentencepiece(place + "tok512.model");
  ASSERT_TRUE(pieces) << pieces.error().message();
  EXPECT_EQ(pieces->tokens, model->tokenizer.tokens);
  EXPECT_EQ(pieces->scores, model->tokenizer.scores);
  EXPECT_EQ(pieces->types, model->tokenizer.types);
  EXPECT_EQ(pieces->bos, 1);
  EXPECT_EQ(pieces->eos, 2);
  EXPECT_TRUE(pieces->remove_extra_spaces);  // which tok512.bin has no place for
  const auto tokenizer = Tokenizer::make(*pieces);
  ASSERT_TRUE(tokenizer);
  const std::string story = read_text(place + "greedy_bos_n200.txt");
  expect_round_trip(*tokenizer, story);
  EXPECT_EQ(encode(*tokenizer, "Once upon a time", {}).size(), 5u);  // BOS, then a token a word
  EXPECT_EQ(encode(*tokenizer, " Once  upon a time "), encode(*tokenizer, "Once upon a time"));
}

// One field of a protocol buffer.
std::string field(unsigned number, std::string_view text) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(text.size())} + std::string(text);
}
std::string field(unsigned number, char value) {
  const unsigned tag = number << 3;
  std::string out;
  if (tag >= 0x80)
    out = {static_cast<char>((tag & 0x7f) | 0x80), static_cast<char>(tag >> 7)};
  else
    out = {static_cast<char>(tag)};
  return out + value;
}

TEST(tokenizer_files, sentencepiece_options_are_done_or_refused_by_name) {
  const TemporaryDirectory d;
  const auto read = [&](const std::string& trainer, const std::string& normalizer) {
    std::string piece = field(1, std::string_view("x"));
    std::string model;
    for (int i = 0; i < 3; ++i) model += field(1, piece);
    model += field(2, trainer) + field(3, normalizer);
    write_text(d / "tokenizer.model", model);
    auto data = read_sentencepiece(d / "tokenizer.model");
    EXPECT_TRUE(data) << data.error().message();
    return *data;
  };
  const std::string bpe = field(3, '\2'), bytes = field(35, '\1');
  EXPECT_EQ(read(bpe + bytes, "").problem, "");
  EXPECT_TRUE(read(bpe + bytes, "").remove_extra_spaces);  // the format's default
  EXPECT_FALSE(read(bpe + bytes, field(4, '\0')).remove_extra_spaces);
  EXPECT_FALSE(read(bpe + bytes, field(3, '\0')).add_space_prefix);
  const auto refused = [&](const std::string& trainer, const std::string& normalizer, const char* word) {
    const TokenizerData data = read(trainer, normalizer);
    EXPECT_EQ(data.kind, TokenizerData::Kind::none);
    EXPECT_NE(data.problem.find(word), std::string::npos) << data.problem;
  };
  refused(bpe, "", "byte_fallback");
  refused(bpe + bytes + field(24, '\1'), "", "treat_whitespace_as_suffix");
  refused(bpe + bytes, field(2, std::string_view("map")), "character map");
  refused(bpe + bytes, field(5, '\0'), "escape_whitespaces");
}

// tokenizers/sentencepiece.json: made by make_sentencepiece.py beside it, one drawn vocabulary each.
struct SentencePieceCase {
  TokenizerData data;
  std::vector<Vector> rows;
};

std::vector<SentencePieceCase> sentencepiece_cases() {
  using Type = TokenizerData::TokenType;
  std::vector<SentencePieceCase> all;
  const std::string path = inlay::test::source_path("tests/model/tokenizers/sentencepiece.json");
  for (const nlohmann::json& json : nlohmann::json::parse(read_text(path))) {
    SentencePieceCase c;
    TokenizerData& t = c.data;
    auto texts = std::make_shared<std::vector<std::string>>();
    const auto add = [&](const std::string& text, Type type, float score) {
      texts->push_back(text), t.types.push_back(type), t.scores.push_back(score);
    };
    for (const auto& piece : json["pieces"]) {
      if (texts->size() == json["first_byte"])
        for (unsigned b = 0; b < 256; ++b) {
          char name[8];
          std::snprintf(name, sizeof(name), "<0x%02X>", b);
          add(name, Type::byte, 0);
        }
      add(piece[0], static_cast<Type>(piece[1].get<int>()), piece[2]);
    }
    t.tokens.assign(texts->begin(), texts->end());
    t.text.push_back(texts);
    t.kind = TokenizerData::Kind::spm;
    t.unknown = 0, t.bos = 1, t.eos = 2;
    t.add_space_prefix = json["prefix"], t.remove_extra_spaces = json["squeeze"];
    for (const auto& row : json["rows"]) c.rows.push_back({row[0], row[1]});
    all.push_back(std::move(c));
  }
  return all;
}

TEST(tokenizer_files, every_type_of_piece_as_sentencepiece_has_it) {
  const auto all = sentencepiece_cases();
  ASSERT_GE(all.size(), 12u);
  for (const SentencePieceCase& c : all) {
    const auto tokenizer = Tokenizer::make(c.data);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    ASSERT_GE(c.rows.size(), 40u);
    for (const Vector& row : c.rows) {
      EXPECT_EQ(encode(*tokenizer, row.text, plain), row.ids) << row.text;
      if (!c.data.remove_extra_spaces) {
        EXPECT_EQ(tokenizer->decode(row.ids), row.text);
      }
    }
  }
}

// Whatever pieces a vocabulary has, nothing of a text is lost.
TEST(tokenizer_files, random_texts_come_back) {
  std::mt19937 random(5);
  const char* parts[] = {" ", "  ", "a", "b", "e", "the", "<sep>", "\n", "\xc3\xa9", "<b>", "\xf0\x9f\xa6\x99",
                         "<", "   "};
  for (const SentencePieceCase& c : sentencepiece_cases()) {
    if (c.data.remove_extra_spaces) continue;
    const auto tokenizer = Tokenizer::make(c.data);
    ASSERT_TRUE(tokenizer);
    for (int i = 0; i < 500; ++i) {
      std::string text;
      for (std::size_t length = random() % 20; length > 0; --length) text += parts[random() % std::size(parts)];
      ASSERT_EQ(tokenizer->decode(encode(*tokenizer, text, plain)), text);
    }
  }
}

// GGUF's own keys have no place for these.
TEST(tokenizer_files, rules_of_a_vocabulary_survive_gguf) {
  const TemporaryDirectory d;
  for (const char* pre : {"qwen2", "llama-bpe", "smollm", "tekken"})
    for (const bool flip : {false, true}) {
      SCOPED_TRACE(std::string(pre) + (flip ? ", other than its name says" : ""));
      TinyModel model = tiny_model();
      TokenizerData& data = model.file.tokenizer = bpe_vocabulary(pre, "", {"<x>", "<e>"});
      data.nfc ^= flip, data.ignore_merges ^= flip;
      if (flip) data.normalized = {257};
      const auto report = write_gguf(model.file, d / "m.gguf");
      ASSERT_TRUE(report) << report.error().message();
      const auto file = load_model(d / "m.gguf");
      ASSERT_TRUE(file) << file.error().message();
      EXPECT_EQ(file->tokenizer.pre, pre);
      EXPECT_EQ(file->tokenizer.nfc, data.nfc);
      EXPECT_EQ(file->tokenizer.ignore_merges, data.ignore_merges);
      EXPECT_EQ(file->tokenizer.normalized, data.normalized);
    }
}

// eot, eom and a list, of any integer type; all of them are written again.
TEST(tokenizer_files, ends_of_text_in_gguf) {
  const TemporaryDirectory d;
  const TinyModel model = tiny_model();
  const std::vector<std::int32_t> list{7, 9, 7, -1};
  write_unchecked(model.file, d / "m.gguf", [&](GgufWriter& writer) {
    writer.set("tokenizer.ggml.eot_token_id", std::uint32_t{5});
    writer.set("tokenizer.ggml.eom_token_id", std::uint32_t{6});
    writer.set("tokenizer.ggml.eos_token_ids", std::span<const std::int32_t>(list));
  });
  auto file = load_model(d / "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->tokenizer.ends, (std::vector<Token>{5, 6, 7, 9}));
  file->tokenizer.added = {3}, file->tokenizer.space_after_special = false;
  ASSERT_TRUE(write_gguf(*file, d / "again.gguf"));
  const auto again = load_model(d / "again.gguf");
  ASSERT_TRUE(again) << again.error().message();
  const auto tokenizer = Tokenizer::make(again->tokenizer);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  for (const Token id : {2, 5, 6, 7, 9}) EXPECT_TRUE(tokenizer->stops(id)) << id;
  EXPECT_FALSE(tokenizer->stops(8));
  EXPECT_EQ(again->tokenizer.added, (std::vector<Token>{3}));
  EXPECT_FALSE(again->tokenizer.space_after_special);
  const std::vector<std::int32_t> beyond{264};
  write_unchecked(model.file, d / "m.gguf", [&](GgufWriter& writer) {
    writer.set("tokenizer.ggml.eos_token_ids", std::span<const std::int32_t>(beyond));
  });
  const auto refused = load_model(d / "m.gguf");
  ASSERT_FALSE(refused);
  for (const char* word : {"eos_token_ids", "264 tokens"})
    EXPECT_NE(refused.error().message().find(word), std::string_view::npos) << refused.error().message();
}

// What other programs write: the name is all that there is.
TEST(tokenizer_files, names_of_pre_tokenizers_in_gguf) {
  const auto data = [](std::string_view name) {
    TokenizerData t;
    set_pre_tokenizer(t, name);
    return t;
  };
  EXPECT_TRUE(data("qwen2").nfc && data("deepseek-r1-qwen").nfc);
  EXPECT_FALSE(data("gpt-2").nfc || data("llama-bpe").nfc || data("tekken").nfc || data("smollm").nfc);
  EXPECT_TRUE(data("llama-bpe").ignore_merges && data("llama3").ignore_merges && data("tekken").ignore_merges);
  EXPECT_FALSE(data("smaug-bpe").ignore_merges || data("qwen2").ignore_merges || data("smollm").ignore_merges);
  EXPECT_TRUE(data("llama-bpe").add_bos && data("tekken").add_bos);
  EXPECT_FALSE(data("qwen2").add_bos || data("smollm").add_bos || data("deepseek-r1-qwen").add_bos);
  EXPECT_EQ(data("other").pre, "other");
  for (const auto& [words, names] :
       {std::pair<std::string, std::vector<const char*>>{
            "llama-bpe", {"llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}},
        {"qwen2", {"megrez", "kormo"}},
        {"gpt-4o", {"llama4", "kanana2", "talkie", "minimax-m2"}},
        {"deepseek-v3", {"joyai-llm", "hunyuan-dense"}},
        {"bailingmoe", {"bailingmoe2", "llada-moe"}},
        {"gpt-2", {"phi-2", "a.x-4.0", "mellum", "exaone4"}}})
    for (const char* name : names) {
      EXPECT_EQ(data(name).pre, words) << name;
      EXPECT_EQ(data(name).add_bos, words == "llama-bpe") << name;
      EXPECT_FALSE(data(name).nfc) << name;
    }
}

// 0, which ggml calls undefined.
TEST(tokenizer_files, a_token_without_a_type_is_a_word) {
  const TemporaryDirectory d;
  TinyModel model = tiny_model();
  model.file.tokenizer.types[259] = static_cast<TokenizerData::TokenType>(0);
  write_unchecked(model.file, d / "m.gguf");
  const auto file = load_model(d / "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->tokenizer.types[259], TokenizerData::TokenType::normal);
}

// A long run without a space is one word for BPE and one text for SPM: neither may be quadratic. Searching all pairs
// again for each merge would take some twenty minutes, which nobody who runs this will overlook.
TEST(tokenizer_files, long_texts_take_time_in_proportion) {
  INLAY_NEEDS_DATA("tokenizers");
  std::string words;
  while (words.size() < 300000) words += texts[2 + words.size() % 6];
  const std::string run(300000, 'a'), spaces(300000, ' '), lines(300000, '\n');
  for (const char* name : {"llama-spm", "gpt-2"}) {
    const Tokenizer tokenizer = load(shared_data + "tokenizers/ggml-vocab-" + name + ".gguf");
    for (const std::string* text : std::initializer_list<const std::string*>{&words, &run, &spaces, &lines}) {
      const auto start = std::chrono::steady_clock::now();
      const auto ids = encode(tokenizer, *text);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      EXPECT_EQ(tokenizer.decode(ids), *text);
      std::cout << name << ": " << static_cast<double>(text->size()) / 1e6 / took.count() << " MB/s, " << ids.size()
                << " tokens\n";
    }
  }
}

}  // namespace
}  // namespace inlay::exec::test
