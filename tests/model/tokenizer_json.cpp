// tokenizer.json: the ids of Hugging Face's `tokenizers`, and a refusal by name of whatever would change them.
#include <inlay/text/pre_tokenizer.hpp>
#include <inlay/text/tokenizer.hpp>

#include <utility>

#include <nlohmann/json.hpp>

#include "executor/model/hf/tokenizer.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/text/support/vocabularies.hpp"

namespace inlay::exec::test {
namespace {

using Json = nlohmann::json;

constexpr index rows = 1000;

// tokenizers/cases.json: made by make.py beside it.
const Json& cases() {
  static const Json all = Json::parse(read_text(inlay::test::source_path("tests/model/tokenizers/cases.json")));
  return all;
}

// The file of one family, whole.
Json tokenizer_json(const std::string& family) {
  Json json = cases()["families"][family]["tokenizer"];
  json["model"]["vocab"] = cases()["vocab"];
  json["model"]["merges"] = cases()["merges"];
  return json;
}

Expected<TokenizerData> read(const Json& json, const Json& config = Json::object()) {
  const TemporaryDirectory d;
  write_text(d / "tokenizer.json", json.dump());
  if (!config.empty()) write_text(d / "tokenizer_config.json", config.dump());
  return hf_tokenizer(d.string(), {}, rows);
}

TokenizerData good(const Json& json, const Json& config = Json::object()) {
  auto data = read(json, config);
  EXPECT_TRUE(data) << data.error().message();
  EXPECT_EQ(data->problem, "");
  return data ? std::move(*data) : TokenizerData{};
}

void expect_ids(const Tokenizer& tokenizer, const Json& family) {
  const Json& expected = family["ids"];
  const Json& inputs = cases()["texts"];
  ASSERT_EQ(expected.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(encode(tokenizer, inputs[i].get<std::string>()), expected[i].get<std::vector<Token>>()) << inputs[i];
}

TEST(tokenizer_json, ids_of_hugging_face) {
  ASSERT_EQ(cases()["families"].size(), 14u);
  for (const auto& [name, family] : cases()["families"].items()) {
    SCOPED_TRACE(name);
    TokenizerData data = good(tokenizer_json(name));
    // These two have the same words; what tells them apart is BOS, and that is a flag of its own.
    EXPECT_EQ(data.pre, name == "deepseek-r1-qwen" ? "qwen2" : name);
    const auto read = Tokenizer::make(data);
    ASSERT_TRUE(read) << read.error().message();
    expect_ids(*read, family);
    // Where GGUF names the family, the name alone says the same.
    const bool add_bos = data.add_bos;
    set_pre_tokenizer(data, name);
    data.add_bos = add_bos;
    const auto named = Tokenizer::make(data);
    ASSERT_TRUE(named) << named.error().message();
    expect_ids(*named, family);
  }
}

// The parts around the ids: special tokens, stops, the chat template, and merges as pairs.
TEST(tokenizer_json, special_tokens) {
  const Json config = {{"bos_token", "<|bos|>"}, {"eos_token", {{"content", "<|eot|>"}}}, {"chat_template", "hi"}};
  Json json = tokenizer_json("tekken");
  const TokenizerData data = good(json, config);
  const auto t = Tokenizer::make(data);
  ASSERT_TRUE(t) << t.error().message();
  EXPECT_EQ(t->chat_template(), "hi");
  EXPECT_EQ(t->bos(), t->find("<|bos|>"));
  EXPECT_TRUE(t->stops(t->find("<|eot|>")));
  EXPECT_EQ(encode(*t, "a<|eot|>"), (std::vector<Token>{t->bos(), t->find("a"), t->eos()}));
  EXPECT_FALSE(good(json, {{"add_bos_token", false}}).add_bos);  // as the config has it, whatever the template says
  Json& merges = json["model"]["merges"];
  for (Json& merge : merges) {
    const std::string text = merge;
    merge = Json::array({text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)});
  }
  EXPECT_EQ(good(json).merges, data.merges);
  json["added_tokens"][0]["id"] = rows;
  EXPECT_FALSE(read(json));  // an id without a row
}

// An embedding may have rows behind the vocabulary.
TEST(tokenizer_json, ids_that_are_no_tokens_are_put_around_no_text) {
  const TemporaryDirectory d;
  write_text(d / "tokenizer.json", tokenizer_json("gpt-2").dump());
  write_text(d / "tokenizer_config.json", Json({{"add_bos_token", true}, {"add_eos_token", true}}).dump());
  write_text(d / "generation_config.json", Json({{"bos_token_id", {998, 1}}, {"eos_token_id", {999, 2}}}).dump());
  const auto data = hf_tokenizer(d.string(), {}, rows);
  ASSERT_TRUE(data) << data.error().message();
  const auto t = Tokenizer::make(*data);
  ASSERT_TRUE(t) << t.error().message();
  ASSERT_LT(t->vocab_size(), 998);
  EXPECT_EQ(encode(*t, ""), (std::vector<Token>{1, 2}));
  EXPECT_TRUE(t->stops(999) && t->stops(2));
}

TEST(tokenizer_json, a_template_says_what_goes_around_the_text) {
  Json json = tokenizer_json("llama-bpe");
  Json& single = json["post_processor"]["processors"][1]["single"];
  Json& known = json["post_processor"]["processors"][1]["special_tokens"];
  known["<|eot|>"] = {{"id", "<|eot|>"}, {"ids", {known["<|bos|>"]["ids"][0].get<int>() + 1}}, {"tokens", {"<|eot|>"}}};
  single.push_back({{"SpecialToken", {{"id", "<|eot|>"}, {"type_id", 0}}}});
  const TokenizerData both = good(json);
  ASSERT_TRUE(both.add_bos && both.add_eos && both.eos >= 0);
  EXPECT_EQ(both.tokens[static_cast<std::size_t>(both.eos)], "<|eot|>");
  single.erase(0);
  const TokenizerData behind = good(json);
  EXPECT_TRUE(!behind.add_bos && behind.add_eos);
  json["post_processor"] = nullptr;
  EXPECT_FALSE(good(json).add_bos);
}

// Two ways to say the same.
TEST(tokenizer_json, equivalent_steps) {
  const auto pre = [](Json json, Json pre_tokenizer) {
    json["pre_tokenizer"] = std::move(pre_tokenizer);
    return good(json).pre;
  };
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json words = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const auto sequence = [](Json steps) { return Json{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}; };
  const auto split = [](std::string_view regex) {
    return Json{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", true}};
  };
  const Json gpt2 = tokenizer_json("gpt-2");
  EXPECT_EQ(pre(gpt2, words), "gpt-2");
  EXPECT_EQ(pre(gpt2, sequence({split(gpt2_words()), bytes})), "gpt-2");
  EXPECT_EQ(pre(gpt2, sequence({split("\\p{N}"), words})), "smollm");
  const auto removed = [&](std::string_view regex) {
    Json step = split(regex);
    step["behavior"] = "Removed";
    return step;
  };
  EXPECT_EQ(pre(gpt2, sequence({removed(gpt2_words()), bytes})), "gpt-2");
  Json json = gpt2;
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json::array()}};
  EXPECT_FALSE(good(json).nfc);
  json["normalizer"]["normalizers"].push_back({{"type", "NFC"}});
  EXPECT_TRUE(good(json).nfc);
  EXPECT_EQ(good(json).pre, "gpt-2");
  json["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "ByteLevel"}}}}};
  EXPECT_EQ(good(json).pre, "gpt-2");
}

// The words of `path` set to `value`; the refusal must hold each of `parts`.
struct Refusal {
  const char* family;
  const char* path;
  Json value;
  std::vector<const char*> parts;
};

TEST(tokenizer_json, refuses_by_name_what_would_change_the_ids) {
  const auto type = [](const char* name) { return Json{{"type", name}}; };
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}};
  const std::vector<Refusal> refusals = {
      {"gpt-2", "/normalizer", type("Lowercase"), {"normalizer", "Lowercase", "NFC"}},
      {"gpt-2", "/normalizer", type("NFKC"), {"normalizer", "NFKC"}},
      {"gpt-2", "/normalizer", replace, {"normalizer", "Replace"}},
      {"gpt-2", "/normalizer", {{"type", "Sequence"}, {"normalizers", {type("NFC"), type("Strip")}}}, {"Strip"}},
      {"gpt-2", "/normalizer", {{"type", "Prepend"}, {"prepend", "_"}}, {"normalizer", "Prepend"}},
      {"gpt-2", "/normalizer", "NFC", {"normalizer", "NFC"}},
      {"gpt-2", "/pre_tokenizer", nullptr, {"pre_tokenizer", "ByteLevel"}},
      {"gpt-2", "/pre_tokenizer", type("Whitespace"), {"pre_tokenizer", "Whitespace"}},
      {"gpt-2", "/pre_tokenizer", type("Metaspace"), {"pre_tokenizer", "Metaspace"}},
      {"gpt-2", "/pre_tokenizer/add_prefix_space", true, {"add_prefix_space", "true", "false"}},
      {"gpt-2", "/pre_tokenizer/use_regex", false, {"unknown"}},
      {"gpt-2", "/pre_tokenizer/fresh", 1, {"pre_tokenizer ByteLevel", "'fresh'"}},
      {"smollm", "/pre_tokenizer/pretokenizers/0/individual_digits", false, {"{N}+", "unknown"}},
      {"smollm", "/pre_tokenizer/pretokenizers/0", type("Punctuation"), {"pre_tokenizer", "Punctuation"}},
      {"smollm", "/pre_tokenizer/pretokenizers/2", type("Digits"), {"behind ByteLevel", "Digits"}},
      {"qwen2", "/pre_tokenizer/pretokenizers/0/pattern/Regex", "[ab]+", {"'[ab]+'", "unknown"}},
      {"qwen2", "/pre_tokenizer/pretokenizers/0/pattern", {{"String", "x"}}, {"Split", "String", "Regex"}},
      {"qwen2", "/pre_tokenizer/pretokenizers/0/behavior", "Removed", {"behavior", "Removed", "Isolated"}},
      {"smollm",
       "/pre_tokenizer/pretokenizers/0",
       {{"type", "Split"}, {"pattern", {{"Regex", "\\p{N}"}}}, {"behavior", "Removed"}, {"invert", true}},
       {"behavior", "Removed", "all of every text"}},
      {"qwen2", "/pre_tokenizer/pretokenizers/0/behavior", "MergedWithNext", {"behavior", "MergedWithNext"}},
      {"qwen2", "/model/type", "Unigram", {"model", "Unigram", "BPE"}},
      {"qwen2", "/model", nullptr, {"model", "missing"}},
      {"qwen2", "/model/dropout", 0.1, {"dropout", "0.1"}},
      {"qwen2", "/model/continuing_subword_prefix", "##", {"continuing_subword_prefix", "##"}},
      {"qwen2", "/model/end_of_word_suffix", "</w>", {"end_of_word_suffix", "</w>"}},
      {"qwen2", "/model/ignore_merges", "yes", {"ignore_merges", "yes"}},
      {"qwen2", "/model/fresh", 1, {"model", "'fresh'"}},
      {"qwen2", "/fresh", 1, {"file", "'fresh'"}},
      {"qwen2", "/post_processor", type("BertProcessing"), {"post_processor", "BertProcessing"}},
      {"llama-bpe", "/post_processor/processors/1/single/2", {{"Sequence", {{"id", "A"}}}}, {"template"}},
      {"llama-bpe", "/post_processor/processors/1/special_tokens", Json::object(), {"template", "known"}},
      {"llama-bpe", "/post_processor/processors/0", type("TemplateProcessing"), {"template"}},
      {"gpt-2", "/decoder", nullptr, {"decoder", "missing", "ByteLevel"}},
      {"gpt-2", "/decoder", type("WordPiece"), {"decoder", "WordPiece"}},
      {"gpt-2", "/added_tokens/0/lstrip", 1, {"lstrip", "<|bos|>", "boolean"}},
      {"gpt-2", "/added_tokens/1/rstrip", "true", {"rstrip", "<|eot|>", "boolean"}},
      {"gpt-2", "/added_tokens/2/single_word", 0, {"single_word", "<think>", "boolean"}},
  };
  for (const Refusal& each : refusals) {
    SCOPED_TRACE(std::string(each.family) + " " + each.path + " = " + each.value.dump());
    Json json = tokenizer_json(each.family);
    json[Json::json_pointer(each.path)] = each.value;
    const auto data = read(json);
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ(data->kind, TokenizerData::Kind::none);
    for (const char* part : each.parts) EXPECT_NE(data->problem.find(part), std::string::npos) << data->problem;
    const auto tokenizer = Tokenizer::make(*data);
    ASSERT_FALSE(tokenizer);
    EXPECT_EQ(tokenizer.error().code(), StatusCode::unsupported);
  }
}

// Every value of the file in turn is something else: read, refused or corrupt, and nothing worse.
TEST(tokenizer_json, survives_any_value_anywhere) {
  Json json = tokenizer_json("llama-bpe");
  std::vector<Json::json_pointer> places;
  const auto walk = [&](const auto& self, const Json& part, const Json::json_pointer& at) -> void {
    places.push_back(at);
    const std::string name = at.to_string();
    if (!part.is_structured() || name == "/model/vocab" || name == "/model/merges") return;
    for (const auto& [key, value] : part.items())
      part.is_array() ? self(self, value, at / static_cast<std::size_t>(std::stoul(key))) : self(self, value, at / key);
  };
  walk(walk, json, Json::json_pointer());
  for (const char* inside : {"/model/vocab/a", "/model/merges/0"}) places.emplace_back(inside);
  int taken = 0;
  for (const auto& place : places)
    for (const Json& value : {Json(nullptr), Json(-1), Json(1e300), Json(1ull << 63), Json("x"), Json::array(),
                              Json::array({1}), Json::object(), Json(true)}) {
      SCOPED_TRACE(place.to_string() + " = " + value.dump());
      const Json before = std::exchange(json[place], value);
      const auto data = read(json);
      if (data && data->kind == TokenizerData::Kind::none) {
        EXPECT_FALSE(data->problem.empty());
      } else if (data) {
        const auto tokenizer = Tokenizer::make(*data);
        taken += tokenizer && tokenizer->encode("It's <think> 2024\n");
      }
      json[place] = before;
    }
  EXPECT_GT(taken, 50);
}

// Without harm where the words are bytes: offsets, and characters without a token.
TEST(tokenizer_json, takes_what_changes_nothing) {
  for (const auto& [path, value] :
       std::vector<std::pair<const char*, Json>>{{"/pre_tokenizer/trim_offsets", false},
                                                 {"/post_processor/add_prefix_space", true},
                                                 {"/decoder/trim_offsets", false},
                                                 {"/model/byte_fallback", true},
                                                 {"/model/type", nullptr},
                                                 {"/model/unk_token", "a"},
                                                 {"/model/fuse_unk", true},
                                                 {"/model/dropout", 0.0},
                                                 {"/model/end_of_word_suffix", ""},
                                                 {"/model/continuing_subword_prefix", ""},
                                                 {"/padding", {{"strategy", "BatchLongest"}}},
                                                 {"/truncation", {{"max_length", 8}}}}) {
    SCOPED_TRACE(path);
    Json json = tokenizer_json("gpt-2");
    json[Json::json_pointer(path)] = value;
    const auto tokenizer = Tokenizer::make(good(json));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    expect_ids(*tokenizer, cases()["families"]["gpt-2"]);
  }
}

TEST(tokenizer_json, tokenizer_config_is_asked_too) {
  const Json stripped = {{"added_tokens_decoder", {{"3", {{"content", "<x>"}, {"rstrip", 1}}}}}};
  const auto data = read(tokenizer_json("gpt-2"), stripped);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_NE(data->problem.find("rstrip"), std::string::npos) << data->problem;
  const Json late = {{"added_tokens_decoder", {{"900", {{"content", "<x>"}, {"normalized", true}}}}}};
  EXPECT_EQ(good(tokenizer_json("gpt-2"), late).normalized.back(), 900);
}

}  // namespace
}  // namespace inlay::exec::test
