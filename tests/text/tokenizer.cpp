// Tokenizers against llama.cpp's own test vectors, and against themselves on text of every kind.
#include <inlay/text/tokenizer.hpp>

#include <chrono>
#include <thread>

#include "tests/model/support/tiny_model.hpp"

namespace inlay::exec::test {
namespace {

Tokenizer load(const std::string& path) {
  const auto file = GgufFile::open(path);
  EXPECT_TRUE(file) << file.error().message();
  const auto vocabulary = gguf_tokenizer(*file);
  EXPECT_TRUE(vocabulary) << vocabulary.error().message();
  auto tokenizer = Tokenizer::make(*vocabulary);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return *tokenizer;
}

std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  const auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message();
  return ids ? *ids : std::vector<Token>{};
}

constexpr EncodeOptions plain{.add_special = false, .parse_special = false};

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

TEST(tokenizer, llama_cpp_vectors) {
  for (const char* name : {"llama-spm", "gpt-2"}) {
    const std::string path = shared_data + "tokenizers/ggml-vocab-" + name + ".gguf";
    if (!present(path)) return;
    const Tokenizer tokenizer = load(path);
    const auto all = vectors(path);
    EXPECT_EQ(all.size(), 46u);
    for (const Vector& each : all) {
      SCOPED_TRACE(std::string(name) + ": " + each.text);
      EXPECT_EQ(encode(tokenizer, each.text, plain), each.ids);
      EXPECT_EQ(tokenizer.decode(each.ids), each.text);
    }
  }
}

// Qwen 2.5's vocabulary as its merge list implies it: 256 bytes, then one token per merge, then the specials.
struct Qwen {
  std::string merges;
  std::vector<std::string> texts;
  TokenizerData data;
};

Qwen qwen() {
  Qwen q;
  q.merges = read_text(shared_data + "tokenizers/qwen2.5_merges.txt");
  // The byte alphabet in order of its characters: what prints first, then the 68 others.
  std::vector<std::pair<unsigned, unsigned>> order;
  for (unsigned b = 0; b < 256; ++b) order.emplace_back(byte_alphabet()[b], b);
  std::sort(order.begin(), order.end());
  for (const auto& [point, b] : order) {
    const char byte = static_cast<char>(b);
    q.texts.push_back(to_byte_alphabet({&byte, 1}));
  }
  for (std::size_t at = 0; at < q.merges.size();) {
    const std::size_t end = std::min(q.merges.find('\n', at), q.merges.size());
    const std::string_view line(q.merges.data() + at, end - at);
    at = end + 1;
    const std::size_t space = line.find(' ');
    if (line.empty() || line.starts_with("#version")) continue;
    q.data.merges.push_back(line);
    q.texts.push_back(std::string(line.substr(0, space)) + std::string(line.substr(space + 1)));
  }
  using Type = TokenizerData::TokenType;
  q.data.types.assign(q.texts.size(), Type::normal);
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
    q.texts.push_back(special), q.data.types.push_back(Type::control);
  q.data.tokens.assign(q.texts.begin(), q.texts.end());
  q.data.kind = TokenizerData::Kind::bpe;
  q.data.pre = "qwen2";
  q.data.eos = static_cast<Token>(q.texts.size()) - 1;
  return q;
}

const std::string texts[] = {
    "",
    " ",
    "Hello, world! It's 2024 and WE'LL see 1234567.",
    "  leading and trailing  ",
    "tabs\tand\r\nlines\n\n\n  indented",
    "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c "
    "\xf0\x9f\xa6\x99\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9",
    "caf\xc3\xa9 na\xc3\xafve \xd0\xbd\xd0\xb5\xd1\x89\xd0\xbe \xe1\xa0\x8e\xc2\x85\xe3\x80\x80x",
    "int main() { return a[i] += ++b; }  // ===",
};

void expect_round_trip(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = encode(tokenizer, text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  // Piece by piece: every piece that comes out is whole characters, and together they are the text.
  StreamDecoder stream(tokenizer, true);
  std::string all;
  for (const Token id : ids) {
    const std::string part = stream.push(id);
    EXPECT_EQ(utf8_unfinished(part), 0u);
    all += part;
  }
  EXPECT_EQ(all + stream.finish(), text);
}

TEST(tokenizer, qwen_splits_and_round_trips) {
  if (!present(shared_data + "tokenizers/qwen2.5_merges.txt")) return;
  const Qwen q = qwen();
  EXPECT_EQ(q.data.merges.size(), 151387u);
  EXPECT_EQ(q.texts.size() - 3, 151643u);
  const auto made = Tokenizer::make(q.data);
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
  const TinyModel tiny = tiny_model();
  const auto spm = Tokenizer::make(tiny.file.tokenizer);
  ASSERT_TRUE(spm);
  for (const std::string& text : {all, noise}) EXPECT_EQ(spm->decode(encode(*spm, text)), text);
  for (const std::string& text : texts) expect_round_trip(*spm, text);
  const std::string gpt2 = shared_data + "tokenizers/ggml-vocab-gpt-2.gguf";
  if (!present(gpt2)) return;
  const Tokenizer bpe = load(gpt2);
  for (const std::string& text : {all, noise}) EXPECT_EQ(bpe.decode(encode(bpe, text)), text);
  for (const std::string& text : texts) expect_round_trip(bpe, text);
}

TEST(tokenizer, spm_by_hand) {
  const TinyModel tiny = tiny_model();
  const auto t = Tokenizer::make(tiny.file.tokenizer);
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

TEST(tokenizer, characters_split_over_tokens_come_out_whole) {
  const TinyModel tiny = tiny_model();
  const auto t = Tokenizer::make(tiny.file.tokenizer);
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

TEST(tokenizer, sentencepiece_file_equals_llama2c_file) {
  const std::string place = shared_data + "stories260K/";
  if (!present(place)) return;
  const auto model = load_llama2c(place + "stories260K.bin", place + "tok512.bin");
  ASSERT_TRUE(model) << model.error().message();
  const auto pieces = read_sentencepiece(place + "tok512.model");
  ASSERT_TRUE(pieces) << pieces.error().message();
  EXPECT_EQ(pieces->tokens, model->tokenizer.tokens);
  EXPECT_EQ(pieces->scores, model->tokenizer.scores);
  EXPECT_EQ(pieces->types, model->tokenizer.types);
  EXPECT_EQ(pieces->bos, 1);
  EXPECT_EQ(pieces->eos, 2);
  const auto tokenizer = Tokenizer::make(*pieces);
  ASSERT_TRUE(tokenizer);
  const std::string story = read_text(place + "greedy_bos_n200.txt");
  expect_round_trip(*tokenizer, story);
  EXPECT_EQ(encode(*tokenizer, "Once upon a time", {}).size(), 5u);  // BOS, then a token a word
}

// A long run without a space is one word for BPE and one text for SPM: neither may be quadratic.
TEST(tokenizer, long_texts_take_time_in_proportion) {
  if (!present(shared_data + "tokenizers/ggml-vocab-gpt-2.gguf")) return;
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
      // Searching all pairs again for each merge would take some twenty minutes; this leaves room for sanitizers and a
      // busy machine.
      EXPECT_LT(took.count(), 60);
      std::cout << name << ": " << static_cast<double>(text->size()) / 1e6 / took.count() << " MB/s, " << ids.size()
                << " tokens\n";
    }
  }
}

TEST(tokenizer, threads_may_share_one) {
  if (!present(shared_data + "tokenizers/ggml-vocab-gpt-2.gguf")) return;
  const Tokenizer tokenizer = load(shared_data + "tokenizers/ggml-vocab-gpt-2.gguf");
  std::vector<std::vector<Token>> results(3);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] {
      for (const std::string& text : texts)
        for (const Token id : encode(tokenizer, text)) result.push_back(id);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

std::vector<std::string> split(std::string_view pre, std::string_view text) {
  const auto tokenizer = PreTokenizer::make(pre);
  EXPECT_TRUE(tokenizer);
  std::vector<std::string_view> words;
  EXPECT_TRUE(tokenizer->split(text, words));
  return {words.begin(), words.end()};
}

TEST(tokenizer, pre_tokenizers) {
  using Words = std::vector<std::string>;
  const std::string text = "I'm 12345  ok!!\n\n x";
  EXPECT_EQ(split("gpt-2", text), (Words{"I", "'m", " 12345", " ", " ok", "!!", "\n\n", " x"}));
  EXPECT_EQ(split("llama-bpe", text), (Words{"I", "'m", " ", "123", "45", " ", " ok", "!!\n\n", " x"}));
  EXPECT_EQ(split("qwen2", text), (Words{"I", "'m", " ", "1", "2", "3", "4", "5", " ", " ok", "!!\n\n", " x"}));
  EXPECT_EQ(split("qwen2", "I'LL"), (Words{"I", "'LL"}));
  EXPECT_EQ(split("gpt-2", "I'LL"), (Words{"I", "'", "LL"}));
  EXPECT_EQ(split("default", "a<=1234"), (Words{"a", "<=", "123", "4"}));
  EXPECT_EQ(split("gpt-2",
                  "a\xff\xfe"
                  "b"),
            (Words{"a", "\xff", "\xfe", "b"}));
  const auto unknown = PreTokenizer::make("tekken");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), StatusCode::unsupported);
  EXPECT_NE(unknown.error().message().find("'tekken'"), std::string_view::npos);
}

TEST(tokenizer, refuses_vocabularies_that_do_not_fit_together) {
  const auto refused = [](auto change, const char* word) {
    TinyModel tiny = tiny_model();
    change(tiny.file.tokenizer);
    const auto tokenizer = Tokenizer::make(tiny.file.tokenizer);
    ASSERT_FALSE(tokenizer);
    EXPECT_NE(tokenizer.error().message().find(word), std::string_view::npos) << tokenizer.error().message();
  };
  refused([](TokenizerData& t) { t.kind = TokenizerData::Kind::none; }, "no tokenizer");
  refused([](TokenizerData& t) { t.scores.pop_back(); }, "scores");
  refused([](TokenizerData& t) { t.types.pop_back(); }, "types");
  refused([](TokenizerData& t) { t.scores[260] = NAN; }, "NaN");
  refused([](TokenizerData& t) { t.tokens[5] = "<0xZZ>"; }, "byte token 5");
  refused([](TokenizerData& t) { t.kind = TokenizerData::Kind::bpe, t.pre = "x"; }, "'x'");
  refused([](TokenizerData& t) { t.kind = TokenizerData::Kind::bpe, t.pre = "gpt-2", t.merges = {"a c"}; }, "'a c'");
  refused([](TokenizerData& t) { t.kind = TokenizerData::Kind::bpe, t.pre = "gpt-2", t.merges = {"nospace"}; },
          "'nospace'");
}

// The same vocabulary as Hugging Face writes it.
TEST(tokenizer, tokenizer_json) {
  const TemporaryDirectory d;
  Json vocab;
  for (unsigned b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    vocab[to_byte_alphabet({&byte, 1})] = b;
  }
  vocab["ab"] = 256, vocab
                         ["\xc4\xa0"
                          "ab"] = 257;
  const std::string regex =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  Json json = {
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "\xc4\xa0 ab"}}}},
      {"added_tokens",
       {{{"id", 258}, {"content", "<|begin_of_text|>"}, {"special", true}},
        {{"id", 259}, {"content", "<|eot_id|>"}, {"special", true}}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}}, {{"type", "ByteLevel"}, {"use_regex", false}}}}}}};
  write_text(d / "tokenizer.json", json.dump());
  write_text(d / "tokenizer_config.json",
             R"({"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|eot_id|>"}, "chat_template": "hi"})");
  const auto data = hf_tokenizer(d.string(), Json::object(), 260);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ(data->pre, "llama-bpe");
  const auto t = Tokenizer::make(*data);
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(encode(*t, "ab ab<|eot_id|>"), (std::vector<Token>{258, 256, 257, 259}));
  EXPECT_EQ(t->chat_template(), "hi");
  EXPECT_TRUE(t->stops(259));
  EXPECT_FALSE(hf_tokenizer(d.string(), Json::object(), 259));  // an id without a row
  json["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"\xc4\xa0", "ab"})});
  write_text(d / "tokenizer.json", json.dump());
  const auto pairs = hf_tokenizer(d.string(), Json::object(), 260);
  ASSERT_TRUE(pairs) << pairs.error().message();
  EXPECT_EQ(pairs->merges, data->merges);
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "other";
  write_text(d / "tokenizer.json", json.dump());
  const auto other = hf_tokenizer(d.string(), Json::object(), 260);
  ASSERT_TRUE(other);
  EXPECT_FALSE(Tokenizer::make(*other));
}

}  // namespace
}  // namespace inlay::exec::test
