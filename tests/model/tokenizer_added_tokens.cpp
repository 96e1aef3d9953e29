// BPE over characters, and added tokens that look at what stands beside them: the ids of Hugging Face's `tokenizers`.
#include <inlay/text/tokenizer.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "executor/model/gguf/vocabulary.hpp"
#include "executor/model/hf/tokenizer.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/text/support/vocabularies.hpp"

namespace inlay::exec::test {
namespace {

using Json = nlohmann::json;

constexpr index rows = 1000;

// tokenizers/added_tokens.json: made by make_added_tokens.py beside it, one drawn vocabulary each.
const Json& cases() {
  static const Json all = [] {
    Json json = Json::parse(read_text(inlay::test::source_path("tests/model/tokenizers/added_tokens.json")));
    for (Json& each : json) {
      for (int byte = 0; byte < 256 && !each["bytes"]; ++byte) {
        char name[8];
        std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(byte));
        each["tokenizer"]["model"]["vocab"][name] = each["first_byte"].get<int>() + byte;
      }
    }
    return json;
  }();
  return all;
}

// Of the first case of which this is true.
template <class Is> Json tokenizer_json(const Is& is) {
  const auto at = std::find_if(cases().begin(), cases().end(), [&](const Json& each) { return is(each["tokenizer"]); });
  EXPECT_NE(at, cases().end());
  return (*at)["tokenizer"];
}
Json llama() {
  return tokenizer_json([](const Json& t) { return t["normalizer"].is_object() && t["pre_tokenizer"].is_null(); });
}
Json metaspace() {
  return tokenizer_json(
      [](const Json& t) { return t["pre_tokenizer"].is_object() && t["pre_tokenizer"]["type"] == "Metaspace"; });
}

struct Files {
  TemporaryDirectory directory;

  Expected<TokenizerData> read(const Json& json, const Json& config = Json::object()) const {
    write_text(directory / "tokenizer.json", json.dump());
    write_text(directory / "tokenizer_config.json", config.dump());
    return hf_tokenizer(directory.string(), {}, rows);
  }
  TokenizerData good(const Json& json, const Json& config = Json::object()) const {
    auto data = read(json, config);
    EXPECT_TRUE(data) << data.error().message();
    EXPECT_EQ(data->problem, "");
    return data ? std::move(*data) : TokenizerData{};
  }
  TokenizerData through_gguf(const TokenizerData& data) const {
    GgufWriter writer;
    write_gguf_vocabulary(data, rows, writer);
    EXPECT_TRUE(writer.write(directory / "vocabulary.gguf"));
    const auto file = GgufFile::open(directory / "vocabulary.gguf");
    EXPECT_TRUE(file) << file.error().message();
    auto again = read_gguf_vocabulary(*file);
    EXPECT_TRUE(again) << again.error().message();
    return again ? std::move(*again) : TokenizerData{};
  }
};

Tokenizer make(const TokenizerData& data) {
  auto t = Tokenizer::make(data);
  EXPECT_TRUE(t) << t.error().message();
  return *t;
}

TEST(tokenizer_added_tokens, ids_of_hugging_face) {
  const Files f;
  ASSERT_EQ(cases().size(), 22u);
  for (const Json& each : cases()) {
    SCOPED_TRACE(each["tokenizer"]["normalizer"].dump() + each["tokenizer"]["pre_tokenizer"].dump());
    const TokenizerData data = f.good(each["tokenizer"]);
    EXPECT_EQ(data.kind, each["bytes"] ? TokenizerData::Kind::bpe : TokenizerData::Kind::character_bpe);
    const Tokenizer t = make(data), again = make(f.through_gguf(data));
    ASSERT_GE(each["rows"].size(), 40u);
    for (const Json& row : each["rows"]) {
      const std::string text = row[0];
      const auto ids = row[1].get<std::vector<Token>>();
      EXPECT_EQ(encode(t, text), ids) << text;
      EXPECT_EQ(encode(again, text), ids) << text;
    }
  }
}

// Where nothing is swallowed, brought into NFC or already begins with a space.
TEST(tokenizer_added_tokens, texts_come_back) {
  const Files f;
  std::size_t count = 0;
  for (const Json& each : cases()) {
    const TokenizerData data = f.good(each["tokenizer"]);
    if (!each["exact"] || data.nfc || data.metaspace) continue;
    const Tokenizer t = make(data);
    for (const Json& row : each["rows"]) {
      const std::string text = row[0];
      // U+2581 becomes a space, and a token of two bytes is printed as its letters.
      if (!each["bytes"] && (text.find("\xe2\x96\x81") != std::string::npos || text.find("\t\t") != std::string::npos))
        continue;
      const auto ids = encode(t, text, plain);
      EXPECT_EQ(t.decode(ids), text);
      StreamDecoder stream(t, true);
      std::string all;
      for (const Token id : ids) all += stream.push(id);
      EXPECT_EQ(all + stream.finish(), text);
      ++count;
    }
  }
  EXPECT_GT(count, 120u);
}

// Every byte, UTF-8 or not.
TEST(tokenizer_added_tokens, bytes_survive) {
  std::string all;
  for (unsigned byte = 0; byte < 256; ++byte) (all += static_cast<char>(byte)) += byte % 3 ? "x" : " ";
  const Tokenizer t = make(Files().good(llama()));
  for (const std::string& text : {all, std::string("\xff"), std::string("a\xe2\x96 b")})
    EXPECT_EQ(t.decode(encode(t, text, plain)), text);
}

// " a" has the one space, where the other way it would have two; and where a special token is.
TEST(tokenizer_added_tokens, where_a_space_is_put) {
  const Files f;
  const auto pieces = [](const Tokenizer& t, std::string_view text) {
    std::string all;
    for (const Token id : encode(t, text)) all += t.is_special(id) ? "|" : t.piece(id);
    return all;
  };
  Json json = metaspace();
  json["post_processor"] = nullptr, json["added_tokens"].get_ref<Json::array_t&>().resize(3);
  for (Json& each : json["added_tokens"]) each["lstrip"] = each["rstrip"] = each["normalized"] = false;
  const auto with = [&](const char* scheme) {
    json["pre_tokenizer"]["prepend_scheme"] = scheme;
    return make(f.good(json));
  };
  EXPECT_EQ(pieces(with("first"), "a</s>a"), " a|a");
  EXPECT_EQ(pieces(with("always"), "a</s>a"), " a| a");
  EXPECT_EQ(pieces(with("never"), "a</s>a"), "a|a");
  EXPECT_EQ(pieces(with("always"), " a</s>  a"), " a|  a");
  EXPECT_EQ(pieces(with("first"), "</s>a"), "|a");
  Json prepend = llama();
  prepend["post_processor"] = nullptr, prepend["added_tokens"].get_ref<Json::array_t&>().resize(3);
  EXPECT_EQ(pieces(make(f.good(prepend)), " a</s> a"), "  a|  a");
  // In normal form the token has the space before it, and what follows has none.
  prepend["added_tokens"][2]["normalized"] = true;
  const Tokenizer normal = make(f.good(prepend));
  EXPECT_EQ(pieces(normal, "</s> a"), "| a");
  EXPECT_EQ(normal.decode(encode(normal, "</s> a")), " a");
  EXPECT_EQ(normal.find("</s>"), 2);
  EXPECT_TRUE(normal.stops(2));
}

// White space of the normal form is looked at where the token is: there spaces are U+2581.
TEST(tokenizer_added_tokens, tokenizer_config_has_the_last_word) {
  const Files f;
  Json json = llama();
  json["post_processor"] = nullptr;
  const auto ids = [&](const Json& flags) {
    Json each = {{"content", "</s>"}, {"special", true}};
    each.update(flags);
    return encode(make(f.good(json, {{"added_tokens_decoder", {{"2", each}}}})), "a </s> \n a").size();
  };
  const std::size_t none = ids(Json::object());
  EXPECT_EQ(none - ids({{"lstrip", true}}), 1u);
  EXPECT_EQ(none - ids({{"rstrip", true}}), 3u);
  EXPECT_EQ(none, ids({{"single_word", true}}));
}

TEST(tokenizer_added_tokens, refuses_by_name) {
  const Files f;
  const auto refused = [&](Json json, const char* path, const Json& value, std::vector<const char*> words,
                           const Json& config = Json::object()) {
    SCOPED_TRACE(std::string(path) + " = " + value.dump());
    json[Json::json_pointer(path)] = value;
    const auto data = f.read(json, config);
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ(data->kind, TokenizerData::Kind::none);
    for (const char* word : words) EXPECT_NE(data->problem.find(word), std::string::npos) << data->problem;
  };
  const auto type = [](const char* name) { return Json{{"type", name}}; };
  const Json prepend = {{"type", "Prepend"}, {"prepend", "\xe2\x96\x81"}};
  refused(llama(), "/normalizer", prepend, {"pre_tokenizer", "spaces"});
  refused(llama(), "/normalizer/normalizers/0/prepend", "_", {"normalizer", "Prepend"});
  refused(llama(), "/normalizer/normalizers/1/content", "_", {"normalizer", "Replace"});
  refused(llama(), "/normalizer/normalizers/1/pattern", {{"Regex", " "}}, {"normalizer", "Replace", "Regex"});
  refused(llama(), "/normalizer/normalizers/2", prepend, {"normalizer", "one Prepend"});
  refused(llama(), "/pre_tokenizer", metaspace()["pre_tokenizer"], {"normalizer", "Metaspace"});
  refused(llama(), "/pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}, {"normalizer", "ByteLevel"});
  refused(llama(), "/pre_tokenizer", {{"type", "Digits"}, {"individual_digits", true}}, {"pre_tokenizer", "Digits"});
  refused(llama(), "/normalizer", nullptr, {"pre_tokenizer", "Metaspace"});
  refused(llama(), "/model/byte_fallback", false, {"byte_fallback", "false", "ByteLevel"});
  refused(llama(), "/decoder", type("ByteLevel"), {"decoder", "ByteFallback"});
  refused(llama(), "/decoder/decoders/1", type("Fuse"), {"decoder", "ByteFallback"});
  refused(llama(), "/decoder/decoders/3/start", 2, {"decoder", "Strip"});
  const Json steps = llama()["decoder"]["decoders"];
  refused(llama(), "/decoder/decoders", {steps[0], steps[0], steps[2]}, {"decoder", "ByteFallback"});
  refused(llama(), "/decoder/decoders", {steps[0], steps[1]}, {"decoder", "Fuse"});
  refused(llama(), "/decoder/decoders/0/content", "_", {"decoder", "Replace"});
  refused(metaspace(), "/pre_tokenizer/replacement", "_", {"replacement", "U+2581"});
  refused(metaspace(), "/pre_tokenizer/prepend_scheme", "last", {"prepend_scheme", "last"});
  refused(metaspace(), "/pre_tokenizer/add_prefix_space", false, {"add_prefix_space", "prepend_scheme"});
  refused(metaspace(), "/pre_tokenizer/split", 1, {"split", "boolean"});
  refused(metaspace(), "/pre_tokenizer/fresh", 1, {"Metaspace", "'fresh'"});
  refused(llama(), "/added_tokens/1/lstrip", "yes", {"lstrip", "<s>", "yes", "boolean"});
  refused(llama(), "/model/merges/0", {"a b", "c"}, {"merge", "a b"});
  refused(llama(), "/version", "1.0", {"add_prefix_space", "false", "tokenizer.json"}, {{"add_prefix_space", false}});
  Json few = llama();
  few["model"]["vocab"].erase("<0x41>");
  refused(few, "/version", "1.0", {"255 bytes", "65", "<0xFF>"});
}

// Mistral's directories have both; in Llama 3's and Qwen's the other is tiktoken's list.
TEST(tokenizer_added_tokens, tokenizer_json_comes_before_tokenizer_model) {
  const Files f;
  write_text(f.directory / "tokenizer.model", "IQ== 0\nIg== 1\n");
  EXPECT_EQ(f.good(llama()).kind, TokenizerData::Kind::character_bpe);
  std::filesystem::remove(f.directory / "tokenizer.json");
  const auto alone = hf_tokenizer(f.directory.string(), {}, rows);
  ASSERT_TRUE(alone) << alone.error().message();
  EXPECT_EQ(alone->kind, TokenizerData::Kind::none);
  for (const char* word : {"tokenizer.model", "tiktoken", "SentencePiece", "tokenizer.json"})
    EXPECT_NE(alone->problem.find(word), std::string::npos) << alone->problem;
}

}  // namespace
}  // namespace inlay::exec::test
