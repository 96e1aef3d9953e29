// Small files that ask for much: what they may cost is in proportion to their size, whoever refuses them.
#include <inlay/model/weights.hpp>
#include <inlay/text/tokenizer.hpp>

#include "executor/model/gguf/model.hpp"
#include "executor/model/hf/config.hpp"
#include "executor/model/sentencepiece.hpp"
#include "tests/model/support/bounded.hpp"
#include "tests/model/support/unchecked_gguf.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {
namespace {

void expect_refused(const std::string& path, std::initializer_list<const char*> words) {
  const auto file = bounded_load(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message().find('\n'), std::string_view::npos) << file.error().message();
  EXPECT_LT(file.error().message().size(), 800u) << file.error().message();
  inlay::test::expect_words(file.error().message(), words);
}

// Was 12.5 GB and 38 s: rows that no tensor has.
TEST(growth, an_id_as_large_as_the_vocabulary_that_the_configuration_claims) {
  Checkpoint c;
  c.config["vocab_size"] = 1 << 28;
  Json tokenizer = byte_tokenizer();
  tokenizer["model"]["vocab"] = {{"x", (1 << 28) - 1}};
  c.write("tokenizer.json", tokenizer);
  expect_refused(c.place(), {"'token_embd.weight'", "[10, 8]"});
}

// Was 4.4 GB.
TEST(growth, an_added_token_as_large_as_the_vocabulary_that_the_configuration_claims) {
  Checkpoint c;
  c.config["vocab_size"] = 1 << 28;
  c.write("tokenizer.json", byte_tokenizer());
  c.write("tokenizer_config.json", {{"added_tokens_decoder", {{"268435455", {{"content", "<x>"}}}}}});
  expect_refused(c.place(), {"'token_embd.weight'", "[10, 8]"});
}

// Rows that are there, of the smallest model that has so many, and one token with the last of them.
TEST(growth, rows_without_tokens_cost_less_than_the_rows) {
  constexpr index rows = 1 << 20;
  Checkpoint c;
  c.config["vocab_size"] = rows;
  c.config["hidden_size"] = 2, c.config["head_dim"] = 2, c.config["num_attention_heads"] = 1;
  c.shard = {};
  const std::string l = "model.layers.0.";
  c.shard.add("model.embed_tokens.weight", {rows, 2}), c.shard.add("model.norm.weight", {2});
  c.shard.add(l + "input_layernorm.weight", {2}), c.shard.add(l + "post_attention_layernorm.weight", {2});
  for (const char* each : {"q", "k", "v", "o"}) c.shard.add(l + "self_attn." + each + "_proj.weight", {2, 2});
  c.shard.add(l + "mlp.gate_proj.weight", {16, 2}), c.shard.add(l + "mlp.up_proj.weight", {16, 2});
  c.shard.add(l + "mlp.down_proj.weight", {2, 16});
  Json tokenizer = byte_tokenizer();
  tokenizer["model"]["vocab"]["xx"] = rows - 1;
  c.write("tokenizer.json", tokenizer);
  const std::string place = c.place();
  const auto file = bounded_load(place);
  ASSERT_TRUE(file) << file.error().message();
  const Growth growth;
  const auto made = Tokenizer::make(file->tokenizer);
  EXPECT_LE(growth.bytes(), file_share * bytes_below(place) + any_file_costs);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->find("xx"), rows - 1);
}

// Was 515 MB: a factor for each pair of a head.
TEST(growth, head_dim) {
  Checkpoint c;
  c.config["head_dim"] = 1 << 28;
  c.config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", 8.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}};
  expect_refused(c.place(), {"head dim", "268435456"});
  c.config["head_dim"] = 1 << 16;
  expect_refused(c.place(), {"'blk.0.attn_q.weight'"});
}

// With a head of less than a pair nothing was checked before the layers were counted out: std::bad_alloc.
TEST(growth, layers) {
  for (const index head_dim : {0, 1, 4})
    for (const index layers : {index{1} << 16, index{1} << 40}) {
      Checkpoint c;
      c.config["head_dim"] = head_dim;
      c.config["num_hidden_layers"] = layers;
      expect_refused(c.place(), {});
    }
  // Lists of the length that the file claims, and a byte for each entry.
  TinyModel tiny = tiny_model();
  constexpr index layers = 2000000;
  const std::vector<std::uint8_t> windowed(layers, 1);
  const TemporaryDirectory d;
  write_unchecked(tiny.file, d / "m.gguf", [&](GgufWriter& writer) {
    writer.set_flags("llama.attention.sliding_window_pattern", windowed);
    writer.set("llama.attention.sliding_window", std::uint32_t{4});
  });
  std::string bytes = read_text(d / "m.gguf");
  const std::size_t at = bytes.find("llama.block_count") + std::strlen("llama.block_count") + 4;
  const auto count = static_cast<std::uint32_t>(layers);
  bytes.replace(at, 4, reinterpret_cast<const char*>(&count), 4);
  write_text(d / "m.gguf", bytes);
  expect_refused(d / "m.gguf", {"layers", "2000000"});
}

// Each of them is copied: 64 copies of one place in the file.
TEST(growth, fused_tensors_that_share_their_data) {
  Checkpoint c;
  c.config["model_type"] = "internlm2", c.config["num_hidden_layers"] = 64;
  c.shard.add("model.layers.0.attention.wqkv.weight", {16, 8});
  const Json entry = c.shard.header["model.layers.0.attention.wqkv.weight"];
  for (int i = 1; i < 64; ++i) c.shard.header["model.layers." + std::to_string(i) + ".attention.wqkv.weight"] = entry;
  expect_refused(c.place(), {"overlap", "wqkv"});
}

// Was 829 MB and 3 s for 11 KB: a tensor was made for each expert of those that have one tensor for all.
TEST(growth, experts_of_one_tensor) {
  for (const index rows : {0, 2}) {
    constexpr index experts = 1 << 14;
    Checkpoint c;
    c.config["model_type"] = "mixtral", c.config["num_hidden_layers"] = 64;
    c.config["num_local_experts"] = experts, c.config["num_experts_per_tok"] = 1;
    for (int i = 0; i < (rows == 0 ? 64 : 4); ++i)
      c.shard.add("model.layers." + std::to_string(i) + ".mlp.experts.gate_up_proj", {experts, rows, 1});
    expect_refused(c.place(), {});
  }
}

// Two bytes each in the file.
TEST(growth, pieces_without_text) {
  const TemporaryDirectory d;
  std::string bytes;
  for (int i = 0; i < 1000000; ++i) bytes += std::string_view("\x0a\0", 2);
  write_text(d / "tokenizer.model", bytes);
  const Growth growth;
  const auto data = read_sentencepiece(d / "tokenizer.model");
  EXPECT_LE(growth.bytes(), file_share * bytes.size());
  ASSERT_FALSE(data);
  EXPECT_NE(data.error().message().find("piece 0 is empty"), std::string_view::npos) << data.error().message();
}

// A refusal shows the value, which went down as many calls as it has brackets.
TEST(growth, nesting) {
  Checkpoint c;
  for (const std::size_t depth : {60u, 100000u, 1000000u})
    for (const char* brackets : {"[]", "{}"}) {
      const bool object = brackets[0] == '{';
      std::string deep;
      for (std::size_t i = 0; i < depth; ++i) deep += object ? "{\"\":" : "[";
      deep += object ? "0" : "";
      deep.append(depth, brackets[1]);
      write_text(c.directory / "tokenizer.json", "{\"normalizer\":" + deep + "}");
      const auto file = load_model(c.place());
      if (depth > 1000) {
        ASSERT_FALSE(file);
        EXPECT_NE(file.error().message().find("nested"), std::string_view::npos) << file.error().message();
      } else {
        ASSERT_TRUE(file) << file.error().message();
        EXPECT_NE(file->tokenizer.problem.find("normalizer"), std::string::npos);
      }
      write_text(c.directory / "tokenizer.json", "{}");
      c.config["layer_types"] = Json::array();
      std::string config = c.config.dump();
      config.replace(config.find("[]"), 2, "[" + deep + "]");
      write_text(c.directory / "config.json", config);
      const auto refused = load_model(c.directory.string());
      EXPECT_FALSE(refused);
      c.config.erase("layer_types");
    }
}

// An id is a number of the vocabulary, not what a key starts with.
TEST(growth, keys_that_are_no_ids) {
  for (const char* key : {"abc", "1x", "", "-1", "+1", " 1", "1 ", "01", "0x1", "1.0", "18446744073709551616"}) {
    Checkpoint c;
    Json tokenizer = byte_tokenizer();
    tokenizer["model"]["vocab"] = {{"a", 0}, {"b", 1}};
    c.write("tokenizer.json", tokenizer);
    c.write("tokenizer_config.json", {{"added_tokens_decoder", {{key, {{"content", "<x>"}}}}}});
    expect_refused(c.place(), {"tokenizer_config.json", "added token"});
  }
}

// Packing gives the file's pages back. Memory that somebody lent holds what it held.
TEST(growth, borrowed_memory_is_left_alone) {
  ModelConfig config = tiny_config();
  config.hidden = 4096;
  TinyModel tiny = tiny_model(config);
  const auto before = tiny.values;
  const auto weights = load_weights(std::make_shared<const ModelFile>(tiny.file), serial());
  ASSERT_TRUE(weights) << weights.error().message();
  EXPECT_EQ(tiny.values, before);
}

// One of them would never be found again.
TEST(growth, two_tokens_with_one_id) {
  Checkpoint c;
  Json tokenizer = byte_tokenizer();
  tokenizer["model"]["vocab"] = {{"a", 0}, {"b", 0}};
  c.write("tokenizer.json", tokenizer);
  expect_refused(c.place(), {"'b'", "id 0", "'a'"});
}

}  // namespace
}  // namespace inlay::exec::test
