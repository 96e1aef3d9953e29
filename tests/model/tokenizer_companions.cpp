// The files beside a vocabulary: ends of text, added tokens, and keys of tokenizer_config.json.
#include <inlay/text/tokenizer.hpp>

#include <initializer_list>
#include <utility>

#include <nlohmann/json.hpp>

#include "executor/model/hf/tokenizer.hpp"
#include "tests/model/support/sentencepiece_file.hpp"
#include "tests/support/words.hpp"
#include "tests/text/support/vocabularies.hpp"

namespace inlay::exec::test {
namespace {

using Json = nlohmann::json;

constexpr index rows = 1000;
constexpr Token a = 259, b = 260, space = 262;  // of tiny_vocabulary(), which ends with 263

struct Files {
  TemporaryDirectory directory;
  TokenizerData vocabulary = tiny_vocabulary();
  Json config = Json::object();

  void write(const std::string& name, const Json& json) const { write_text(directory / name, json.dump()); }
  Expected<TokenizerData> read() const {
    write_text(directory / "tokenizer.model", sentencepiece_file(vocabulary));
    const auto document = parse_json(config.dump(), "config.json");
    EXPECT_TRUE(document) << document.error().message();
    return hf_tokenizer(directory.string(), document->root(), rows);
  }
  Tokenizer tokenizer() const {
    const auto data = read();
    EXPECT_TRUE(data) << data.error().message();
    auto t = Tokenizer::make(*data);
    EXPECT_TRUE(t) << t.error().message();
    return *t;
  }
  void refused(std::initializer_list<const char*> words) const {
    const auto data = read();
    const std::string said = data ? data->problem : std::string(data.error().message());
    EXPECT_NE(said, "");
    inlay::test::expect_words(said, words);
  }
};

TEST(tokenizer_companions, every_file_may_name_ends) {
  Files f;
  f.config = {{"eos_token_id", {257, 258}}};
  f.write("generation_config.json", {{"eos_token_id", {2, 900}}});
  f.write("special_tokens_map.json", {{"eos_token", {{"content", "b"}}}, {"pad_token", "ab"}});
  f.write("tokenizer_config.json", {{"eos_token", "a"}});
  const Tokenizer t = f.tokenizer();
  EXPECT_EQ(t.eos(), a);  // what is put behind a text
  for (const Token id : {2, 257, 258, 900, a, b}) EXPECT_TRUE(t.stops(id)) << id;
  for (const Token id : {0, 1, 3, 256, 261, 899, 901}) EXPECT_FALSE(t.stops(id)) << id;
  f.write("generation_config.json", {{"eos_token_id", 901}});
  EXPECT_TRUE(f.tokenizer().stops(901));
  f.write("generation_config.json", {{"eos_token_id", rows}});  // no row: it never comes
  EXPECT_FALSE(f.tokenizer().stops(rows));
  f.write("generation_config.json", {{"eos_token_id", nullptr}});
  EXPECT_TRUE(f.tokenizer().stops(258));
  f.write("generation_config.json", {{"eos_token_id", {1, "x"}}});
  f.refused({"generation_config.json", "eos_token_id", "x", "a list of ids"});
  write_text(f.directory / "generation_config.json", "{");
  f.refused({"generation_config.json"});
}

TEST(tokenizer_companions, a_chat_template_stands_in_one_of_several_places) {
  Files f;
  EXPECT_EQ(f.tokenizer().chat_template(), "");
  f.write("tokenizer_config.json", {{"chat_template", "one"}});
  EXPECT_EQ(f.tokenizer().chat_template(), "one");
  f.write(
      "tokenizer_config.json",
      {{"chat_template", {{{"name", "tool_use"}, {"template", "two"}}, {{"name", "default"}, {"template", "three"}}}}});
  EXPECT_EQ(f.tokenizer().chat_template(), "three");
  write_text(f.directory / "chat_template.jinja", "four\n");  // newer files', and it wins
  EXPECT_EQ(f.tokenizer().chat_template(), "four\n");
}

TEST(tokenizer_companions, added_tokens_are_one_id) {
  Files f;
  f.write("added_tokens.json", {{"<|im_start|>", 700}, {"<tool>", 701}, {"</s>", 2}});
  f.write("special_tokens_map.json", {{"additional_special_tokens", {"<|im_start|>"}}});
  const Tokenizer t = f.tokenizer();
  EXPECT_EQ(encode(t, "a<|im_start|>b<tool>"), (std::vector<Token>{1, space, a, 700, space, b, 701}));
  EXPECT_EQ(encode(t, "a<|im_start|>", plain).size(), 2u + 12u);  // special: only where the caller parses it
  EXPECT_EQ(encode(t, "<tool>", plain), (std::vector<Token>{701}));
  EXPECT_EQ(t.piece(701), "<tool>");
  EXPECT_EQ(t.piece(700), "");
  // The newer file says the same, or the two disagree.
  f.write("tokenizer_config.json",
          {{"added_tokens_decoder", {{"700", {{"content", "<|im_start|>"}, {"special", true}}}}}});
  EXPECT_EQ(encode(f.tokenizer(), "<|im_start|>"), (std::vector<Token>{1, 700}));
  f.write("tokenizer_config.json", {{"added_tokens_decoder", {{"702", {{"content", "<|im_start|>"}}}}}});
  f.refused({"tokenizer_config.json", "<|im_start|>", "700", "702", "disagree"});
  f.write("tokenizer_config.json", {{"added_tokens_decoder", {{"701", {{"content", "<other>"}}}}}});
  f.refused({"tokenizer_config.json", "<other>", "<tool>", "disagree"});
  f.write("tokenizer_config.json", Json::object());
  f.write("added_tokens.json", {{"</s>", 700}});
  f.refused({"added_tokens.json", "</s>", "700", "2", "disagree"});
  f.write("added_tokens.json", {{"<x>", 700}, {"<y>", 700}});
  f.refused({"added_tokens.json", "<x>", "<y>", "700", "disagree"});
  for (const Json& id : {Json(rows), Json(-1), Json("7"), Json(1.5)}) {
    f.write("added_tokens.json", {{"<x>", id}});
    f.refused({"added_tokens.json", "<x>", "1000 rows"});
  }
  f.write("added_tokens.json", {{"[UNUSED]", 263}});  // in the place of another piece, as InternLM2's are
  EXPECT_EQ(encode(f.tokenizer(), "[UNUSED]", plain), (std::vector<Token>{263}));
}

// `hello<s>world` without a space before world.
TEST(tokenizer_companions, keys_of_the_config_are_obeyed_or_refused) {
  Files f;
  const std::vector<Token> legacy{1, space, a, 1, space, b}, newer{1, space, a, 1, b}, none{1, a, 1, b};
  const auto ids = [&](const Json& config) {
    f.write("tokenizer_config.json", config);
    const Tokenizer t = f.tokenizer();
    const auto all = encode(t, "a<s>b");
    EXPECT_EQ(t.decode(all), "ab") << config;
    return all;
  };
  EXPECT_EQ(ids(Json::object()), legacy);
  EXPECT_EQ(ids({{"legacy", true}}), legacy);
  EXPECT_EQ(ids({{"legacy", nullptr}}), legacy);
  EXPECT_EQ(ids({{"legacy", false}}), newer);
  EXPECT_EQ(ids({{"add_prefix_space", false}}), none);
  EXPECT_EQ(ids({{"sp_model_kwargs", Json::object()}, {"model_max_length", 1e30}, {"image_token", "<i>"}}), legacy);
  const auto refused = [&](const Json& config, std::initializer_list<const char*> words) {
    f.write("tokenizer_config.json", config);
    f.refused(words);
  };
  refused({{"sp_model_kwargs", {{"alpha", 0.1}}}}, {"sp_model_kwargs", "unknown"});
  refused({{"fix_mistral_regex", true}}, {"tokenizer_config.json", "fix_mistral_regex", "true", "unknown"});
  refused({{"do_lower_case", true}}, {"do_lower_case"});
  refused({{"legacy", 1}}, {"legacy"});
}

}  // namespace
}  // namespace inlay::exec::test
