// Files of JSON that are made of the smallest values: at most ten bytes of memory for each of theirs.
#include <inlay/text/tokenizer.hpp>

#include <cstring>

#include "executor/model/family.hpp"
#include "executor/model/hf/tokenizer.hpp"
#include "tests/model/support/bounded.hpp"

namespace inlay::exec::test {
namespace {

constexpr std::size_t length = (std::size_t{1} << 18) + 100;  // just too much for a buffer that doubles
constexpr std::size_t little = std::size_t{1} << 16;          // of the 4 MB that any file may cost

std::string many(const std::string& open, const std::string& value, const std::string& close) {
  std::string text = open + value;
  while (text.size() < length) text += "," + value;
  return text + close;
}

std::string distinct_keys() {
  std::string text = "{\"\":0";
  for (int i = 0; text.size() < length; ++i) text += ",\"" + std::to_string(i) + "\":0";
  return text + "}";
}

std::string deep(const char* open, const std::string& value, const char* close) {
  constexpr int depth = 90;  // and the few around it
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += value;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

std::string string_of(const std::string& piece, const std::string& end = "\"") {
  std::string text = "\"";
  while (text.size() < length) text += piece;
  return text + end;
}

// JSON and what is nearly JSON: of the smallest values, and refused behind a quarter of a megabyte of them.
std::vector<std::pair<const char*, std::string>> shapes() {
  return {{"lists", many("[", "[]", "]")},
          {"objects", many("[", "{}", "]")},
          {"one key", many("{", "\"\":0", "}")},
          {"one key of objects", many("{", "\"\":{}", "}")},
          {"keys", distinct_keys()},
          {"numbers", many("[", "0", "]")},
          {"fractions", many("[", "-0.5", "]")},
          {"words", many("[", "true", "]")},
          {"words of Python", many("[", "NaN", "]")},
          {"strings", many("[", "\"\"", "]")},
          {"pairs", many("[", "[\"\",\"\"]", "]")},
          {"merges of pairs", many("[", "[\"a\",\"b\"]", "]")},
          {"merges", many("[", "\"a \"", "]")},
          {"splits", many("[", R"({"type":"Split","pattern":{"Regex":""},"behavior":"Isolated"})",
                          R"(,{"type":"ByteLevel","add_prefix_space":false}])")},
          {"deep lists", many("[", deep("[", "", "]"), "]")},
          {"deep objects", many("[", deep("{\"\":", "0", "}"), "]")},
          {"deep lists, then no number", many("[", deep("[", "", "]"), ",1.e]")},
          {"deep lists, then no text", many("[", deep("[", "", "]"), ",\"\xff\"]")},
          {"deep lists, then no word", many("[", deep("[", "", "]"), ",falze]")},
          {"deep lists, then no end", many("[", deep("[", "", "]"), "")},
          {"a long text", string_of("abcdefgh")},
          {"escapes", string_of("\\n")},
          {"surrogates", string_of("\\ud83d\\ude00")},
          {"a long text, then no UTF-8", string_of("abcdefgh", "\xff\"")},
          {"a long text, then no escape", string_of("abcdefgh", "\\x\"")},
          {"a long text, then no end", string_of("abcdefgh", "")},
          {"numbers and a long text, then no UTF-8", many("[", "0", ",") + string_of("abcdefgh", "\xff\"") + "]"},
          {"a long number", std::string(length, '1')}};
}

struct Place {
  const char* file;
  const char* path;
  Json value = "HERE";  // "HERE" is where the shape goes
};

const std::vector<Place>& places() {
  static const std::vector<Place> all = {
      {"config.json", "/layer_types"},
      {"config.json", "/rope_scaling"},
      {"config.json", "/model_type"},
      {"config.json", "/intermediate_size"},
      {"config.json", "/eos_token_id"},
      {"model.safetensors", "/x"},
      {"model.safetensors", "/x", {{"dtype", "HERE"}, {"shape", Json::array()}, {"data_offsets", {0, 0}}}},
      {"model.safetensors", "/__metadata__"},
      {"model.safetensors", "/model.norm.weight/shape"},
      {"model.safetensors.index.json", "/weight_map"},
      {"tokenizer.json", "/padding"},
      {"tokenizer.json", "/added_tokens"},
      {"tokenizer.json", "/normalizer"},
      {"tokenizer.json", "/normalizer", {{"type", "Sequence"}, {"normalizers", "HERE"}}},
      {"tokenizer.json", "/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", "HERE"}}},
      {"tokenizer.json", "/post_processor", {{"type", "Sequence"}, {"processors", "HERE"}}},
      {"tokenizer.json", "/post_processor", {{"type", "TemplateProcessing"}, {"single", "HERE"}}},
      {"tokenizer.json", "/decoder", {{"type", "Sequence"}, {"decoders", "HERE"}}},
      {"tokenizer.json", "/model/vocab"},
      {"tokenizer.json", "/model/merges"},
      {"tokenizer_config.json", "/added_tokens_decoder"},
      {"tokenizer_config.json", "/chat_template"},
      {"tokenizer_config.json", "/bos_token"},
  };
  return all;
}

Json file_of(const Checkpoint& c, std::string_view name) {
  if (name == "config.json") return c.config;
  if (name == "model.safetensors") return c.shard.header;
  if (name == "tokenizer.json") return byte_tokenizer();
  return Json::object();
}

TEST(json_growth, the_smallest_values_in_every_file) {
  const auto all = shapes();
  for (const Place& place : places()) {
    Checkpoint c;
    c.config["vocab_size"] = 300;
    c.shard.header.erase("model.embed_tokens.weight");
    c.shard.add("model.embed_tokens.weight", {300, 8});
    c.write("tokenizer.json", byte_tokenizer());
    const std::string directory = c.place();
    const Growth growth;
    ASSERT_TRUE(load_model(directory));
    const std::size_t base = growth.bytes();
    EXPECT_LT(base, little);
    Json file = file_of(c, place.file);
    file[Json::json_pointer(place.path)] = place.value;
    const std::string text = file.dump();
    const std::size_t at = text.find("\"HERE\"");
    ASSERT_NE(at, std::string::npos);
    for (const auto& [name, shape] : all) {
      SCOPED_TRACE(std::string(place.file) + " " + place.path + ": " + name);
      std::string bytes = text.substr(0, at) + shape;
      if (!std::string_view(name).ends_with("no end")) bytes += text.substr(at + std::strlen("\"HERE\""));
      if (std::string_view(place.file) == "model.safetensors") {
        const std::uint64_t size = bytes.size();
        bytes = std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + bytes + c.shard.data;
      }
      write_text(c.directory / place.file, bytes);
      const auto model = bounded_load(directory, base);
      const std::string_view message = model ? model->tokenizer.problem : model.error().message();
      // All that may be long is the list of architectures, where another is asked for.
      EXPECT_LT(message.size(), 400 + known_families(&Family::hf).size()) << message.substr(0, 1000);
    }
  }
}

// As they are written: 65,536 tokens of two letters, and the merge that makes each.
TEST(json_growth, a_compact_tokenizer_of_pairs) {
  constexpr index rows = 256 + 65536;
  std::vector<std::string> letters;
  for (unsigned b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    letters.push_back(to_byte_alphabet({&byte, 1}));
  }
  Json tokenizer = byte_tokenizer();
  Json &vocab = tokenizer["model"]["vocab"], &merges = tokenizer["model"]["merges"];
  vocab = Json::object();
  for (index i = 0; i < 256; ++i) vocab[letters[static_cast<std::size_t>(i)]] = i;
  for (const bool pairs : {true, false}) {
    merges = Json::array();
    for (const std::string& a : letters)
      for (const std::string& b : letters) {
        vocab[a + b] = 256 + merges.size();
        merges.push_back(pairs ? Json::array({a, b}) : Json(a + " " + b));
      }
    const TemporaryDirectory d;
    const std::string text = tokenizer.dump();
    write_text(d / "tokenizer.json", text);
    const Growth growth;
    const auto data = hf_tokenizer(d.string(), {}, rows);
    EXPECT_LE(growth.bytes(), 6 * text.size());
    ASSERT_TRUE(data) << data.error().message();
    ASSERT_EQ(data->problem, "");
    const auto made = Tokenizer::make(*data);
    EXPECT_LE(growth.bytes(), file_share * text.size() + little);
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(data->merges.size(), 65536u);
    EXPECT_EQ(made->find("ab"), 256 + 'a' * 256 + 'b');
    EXPECT_EQ(encode(*made, "abab").size(), 2u);
  }
}

// Thousands of tensors, and an index of them.
TEST(json_growth, names_of_tensors) {
  const TemporaryDirectory d;
  std::string header = "{", index = "{\"weight_map\":{", data;
  for (int i = 0; i < 60000; ++i) {
    const std::string name = "\"" + std::to_string(i * 7919 % 60000) + "\":";
    const std::string begin = std::to_string(data.size());
    data += "xx";
    header += name + "{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[" + begin + "," + std::to_string(data.size()) +
              "]},";
    index += name + "\"" + (i % 2 == 0 ? "a" : "model") + ".safetensors\",";
  }
  header.back() = '}', index.back() = '}', index += '}';
  const std::uint64_t size = header.size();
  header.insert(0, reinterpret_cast<const char*>(&size), sizeof(size));
  write_text(d / "config.json", llama_config().dump());
  write_text(d / "model.safetensors", header + data), write_text(d / "a.safetensors", header + data);
  for (const bool indexed : {false, true}) {
    if (indexed) write_text(d / "model.safetensors.index.json", index);
    const auto file = bounded_load(d.string(), little);
    ASSERT_FALSE(file);
    EXPECT_NE(file.error().message().find("no place"), std::string_view::npos) << file.error().message();
  }
}

}  // namespace
}  // namespace inlay::exec::test
