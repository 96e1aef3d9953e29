// Hugging Face checkpoints: third parties' tiny ones, shards, InternLM2's fused matrix, and broken files.
#include <inlay/model/load.hpp>
#include <inlay/text/tokenizer.hpp>

#include "tests/model/support/checkpoint.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {
namespace {

float first(const ModelFile& file, const std::string& name, index i = 0) {
  float value;
  std::memcpy(&value, file.find(name)->data + i * 4, sizeof(value));
  return value;
}

void expect_refused(const std::string& path, StatusCode code, std::initializer_list<const char*> words) {
  const auto file = load_model(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message().find('\n'), std::string_view::npos) << file.error().message();
  inlay::test::expect_refused(file.error(), code, words);
}

TEST(safetensors, tiny_llama3_of_third_parties) {
  INLAY_NEEDS_DATA("tiny_models/tiny_llama3");
  const std::string path = shared_data + "tiny_models/tiny_llama3";
  for (const std::string& place : {path, path + "/model.safetensors"}) {
    const auto file = load_model(place);
    ASSERT_TRUE(file) << file.error().message();
    const ModelConfig& c = file->config;
    EXPECT_EQ(c.layers, 2);
    EXPECT_EQ(c.head_dim, 16);
    EXPECT_EQ(c.kv_heads, 2);
    EXPECT_EQ(c.norm_eps, 1e-6);
    EXPECT_EQ(c.ropes[0].theta, 500000);
    EXPECT_EQ(c.ropes[0].pairing, RopeConfig::Pairing::half);
    EXPECT_EQ(c.ropes[0].scaling, RopeConfig::Scaling::llama3);
    EXPECT_EQ(c.ropes[0].factor, 8);
    ASSERT_EQ(c.ropes[0].freq_factors.size(), 8u);
    // Wavelengths 2 pi 500000^(i / 8): below 2048 kept, above 8192 slowed down by 8, between blended.
    for (const std::size_t i : {0u, 1u, 2u, 3u}) EXPECT_EQ(c.ropes[0].freq_factors[i], 1) << i;
    for (const std::size_t i : {5u, 6u, 7u}) EXPECT_EQ(c.ropes[0].freq_factors[i], 8) << i;
    const double turns = 8192 / (2 * 3.14159265358979 * std::pow(500000.0, 0.5)), smooth = (turns - 1) / 3;
    EXPECT_NEAR(c.ropes[0].freq_factors[4], 1 / ((1 - smooth) / 8 + smooth), 1e-5);
    EXPECT_EQ(file->find("blk.1.ffn_down.weight")->type, GgmlType::BF16);
    EXPECT_EQ(file->find("blk.1.ffn_down.weight")->matrix().extents, (std::array<index, 2>{64, 128}));
    EXPECT_EQ(file->tokenizer.kind, TokenizerData::Kind::none);
    EXPECT_FALSE(Tokenizer::make(file->tokenizer));
  }
}

TEST(safetensors, tiny_qwen3_of_third_parties) {
  INLAY_NEEDS_DATA("tiny_models/tiny_qwen3");
  const std::string path = shared_data + "tiny_models/tiny_qwen3";
  const auto file = load_model(path);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->config.qk_norm, QkNorm::head);
  EXPECT_FALSE(file->config.qkv_bias);
  EXPECT_EQ(file->config.ropes[0].scaling, RopeConfig::Scaling::none);
  EXPECT_EQ(file->find("blk.0.attn_q_norm.weight")->vector().extents[0], 16);
}

TEST(safetensors, shards) {
  const TemporaryDirectory d;
  const Shard whole = llama_shard();
  Json map;
  Shard halves[2];
  int i = 0;
  for (const auto& [name, entry] : whole.header.items()) {
    const int k = i++ % 2;
    halves[k].add(name, entry["shape"].get<std::vector<index>>(), static_cast<float>(i));
    map[name] = k ? "b.safetensors" : "a.safetensors";
  }
  write_text(d / "config.json", llama_config().dump());
  write_text(d / "a.safetensors", halves[0].bytes()), write_text(d / "b.safetensors", halves[1].bytes());
  write_text(d / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  const auto file = load_model(d.string());
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->tensors().size(), whole.header.size());
  // What no index names is not passed over either.
  Shard more = halves[0];
  more.add("model.layers.0.self_attn.rotations.weight", {2});
  write_text(d / "a.safetensors", more.bytes());
  expect_refused(d.string(), StatusCode::unsupported, {"'model.layers.0.self_attn.rotations.weight'", "no place"});
  write_text(d / "a.safetensors", halves[0].bytes());
  // Where two shards have a tensor, the index says which of them counts.
  Shard both = halves[0];
  for (const auto& [name, entry] : halves[1].header.items())
    both.add(name, entry["shape"].get<std::vector<index>>(), 1e6f);
  write_text(d / "a.safetensors", both.bytes());
  const auto twice = load_model(d.string());
  ASSERT_TRUE(twice) << twice.error().message();
  for (const WeightTensor& tensor : twice->tensors()) EXPECT_LT(first(*twice, tensor.name), 1e6f) << tensor.name;
  write_text(d / "a.safetensors", halves[0].bytes());
  // A shard that lacks what the index promises, and one that is a path.
  map["model.norm.weight"] = map["model.norm.weight"] == "a.safetensors" ? "b.safetensors" : "a.safetensors";
  write_text(d / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  expect_refused(d.string(), StatusCode::not_found, {"'model.norm.weight'", "missing"});
  map["model.norm.weight"] = "../secret";
  write_text(d / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  expect_refused(d.string(), StatusCode::corrupt_data, {"'../secret'", "file name"});
  map["model.norm.weight"] = "c.safetensors";
  write_text(d / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  expect_refused(d.string(), StatusCode::not_found, {"c.safetensors"});
}

TEST(safetensors, unaligned_data_are_copied) {
  const TemporaryDirectory d;
  Shard s = llama_shard();
  write_text(d / "config.json", llama_config().dump());
  for (int pad = 0; pad < 4; ++pad) {
    s.header["__metadata__"] = {{"pad", std::string(static_cast<std::size_t>(pad), 'x')}};
    write_text(d / "model.safetensors", s.bytes());
    const auto file = load_model(d.string());
    ASSERT_TRUE(file) << file.error().message();
    for (const WeightTensor& t : file->tensors()) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data) % 4, 0u);
    EXPECT_EQ(first(*file, "blk.0.attn_k.weight", 5), 205);
  }
}

TEST(safetensors, internlm2_is_split) {
  const TemporaryDirectory d;
  Json config = llama_config();
  config["model_type"] = "internlm2", config["num_attention_heads"] = 4, config["num_key_value_heads"] = 2;
  config["bias"] = false, config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  Shard s;
  const std::string l = "model.layers.0.";
  s.add("model.tok_embeddings.weight", {10, 8}), s.add("model.norm.weight", {8});
  s.add(l + "attention_norm.weight", {8}), s.add(l + "ffn_norm.weight", {8});
  s.add(l + "attention.wqkv.weight", {16, 8}), s.add(l + "attention.wo.weight", {8, 8});
  s.add(l + "feed_forward.w1.weight", {16, 8}), s.add(l + "feed_forward.w3.weight", {16, 8}),
      s.add(l + "feed_forward.w2.weight", {8, 16});
  write_text(d / "config.json", config.dump()), write_text(d / "model.safetensors", s.bytes());
  const auto file = load_model(d.string());
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->config.ropes[0].scaling, RopeConfig::Scaling::none);
  // Rows of wqkv, heads of two: q0 q0 q1 q1 k k v v | q2 q2 q3 q3 k k v v.
  const index q[] = {0, 1, 2, 3, 8, 9, 10, 11}, k[] = {4, 5, 12, 13}, v[] = {6, 7, 14, 15};
  for (index r = 0; r < 8; ++r) EXPECT_EQ(first(*file, "blk.0.attn_q.weight", 8 * r), static_cast<float>(8 * q[r]));
  for (index r = 0; r < 4; ++r) EXPECT_EQ(first(*file, "blk.0.attn_k.weight", 8 * r), static_cast<float>(8 * k[r]));
  for (index r = 0; r < 4; ++r)
    EXPECT_EQ(first(*file, "blk.0.attn_v.weight", 8 * r + 7), static_cast<float>(8 * v[r] + 7));
}

TEST(safetensors, refuses_configurations) {
  const TemporaryDirectory d;
  write_text(d / "model.safetensors", llama_shard().bytes());
  const auto refuse = [&](auto change, StatusCode code, std::initializer_list<const char*> words) {
    Json config = llama_config();
    change(config);
    write_text(d / "config.json", config.dump());
    expect_refused(d.string(), code, words);
  };
  using enum StatusCode;
  refuse([](Json& c) { c["model_type"] = "gemma9"; }, unsupported, {"'gemma9'", "llama"});
  refuse([](Json& c) { c.erase("model_type"); }, not_found, {"'model_type'"});
  refuse([](Json& c) { c.erase("hidden_size"); }, not_found, {"'hidden_size'"});
  refuse([](Json& c) { c["hidden_size"] = "8"; }, corrupt_data, {"'hidden_size'", "integer"});
  refuse([](Json& c) { c["hidden_size"] = -8; }, corrupt_data, {"hidden_size"});
  refuse([](Json& c) { c["hidden_size"] = 1ull << 62; }, corrupt_data, {"4611686018427387904"});
  refuse([](Json& c) { c["num_attention_heads"] = 0; }, corrupt_data, {"num_attention_heads"});
  refuse([](Json& c) { c["head_dim"] = 1ull << 40; }, corrupt_data, {"head dim"});
  refuse([](Json& c) { c["intermediate_size"] = 17; }, corrupt_data, {"'blk.0.ffn_gate.weight'", "[16, 8]", "[17, 8]"});
  refuse([](Json& c) { c["tie_word_embeddings"] = false; }, not_found, {"'output.weight'"});
  refuse([](Json& c) { c["rope_scaling"] = {{"type", "longrope"}}; }, corrupt_data, {"short_factor"});
  refuse([](Json& c) { c["rope_scaling"] = {{"type", "longerrope"}}; }, unsupported, {"'longerrope'"});
  refuse([](Json& c) { c["rope_scaling"] = 3; }, corrupt_data, {"rope_scaling"});
  refuse([](Json& c) { c["rope_theta"] = "big"; }, corrupt_data, {"rope_theta"});
  refuse([](Json& c) { c["hidden_act"] = "relu6"; }, unsupported, {"'relu6'"});
  refuse([](Json& c) { c["quantization_config"] = {{"quant_method", "hqq"}}; }, unsupported, {"'hqq'"});
  refuse([](Json& c) { c["model_type"] = "qwen2"; }, not_found, {"'blk.0.attn_q.bias'"});
  for (const char* text : {"", "{", "[]", "3", "{\"model_type\": \"llama\",}", "\xff\xff"}) {
    write_text(d / "config.json", text);
    expect_refused(d.string(), corrupt_data, {"config.json"});
  }
  std::filesystem::remove(d / "config.json");
  expect_refused(d.string(), not_found, {"config.json"});
}

TEST(safetensors, unknown_tensors_are_refused_by_name) {
  const TemporaryDirectory d;
  const auto load_with = [&](const std::string& name, bool tied = true) {
    Json config = llama_config();
    config["tie_word_embeddings"] = tied;
    Shard s = llama_shard();
    s.add(name, {10, 8}, 50);
    write_text(d / "config.json", config.dump()), write_text(d / "model.safetensors", s.bytes());
    return load_model(d.string());
  };
  for (const char* name :
       {"model.layers.0.self_attn.rotations.weight", "model.layers.1.mlp.up_proj.weight", "vision.patch.weight",
        "model.layers.0.mlp.up_proj.bias", "model.layers.x.mlp.up_proj.weight"}) {
    const auto file = load_with(name);
    ASSERT_FALSE(file) << name;
    EXPECT_EQ(file.error().code(), StatusCode::unsupported);
    // Those that have a name in GGUF are called by it.
    const bool ours = std::string_view(name).find("up_proj") != std::string_view::npos && !std::strchr(name, 'x');
    EXPECT_NE(file.error().message().find(ours ? "ffn_up" : name), std::string_view::npos) << file.error().message();
  }
  EXPECT_TRUE(load_with("model.layers.0.self_attn.rotary_emb.inv_freq"));
}

// transformers unties a head that differs from the embedding; one that is its copy is no second tensor.
TEST(safetensors, a_tied_head_is_the_embedding_or_untied) {
  const TemporaryDirectory d;
  const auto load_with = [&](bool tied, float head, float last) {
    Json config = llama_config();
    config["tie_word_embeddings"] = tied;
    Shard s = llama_shard();
    s.add("lm_head.weight", {10, 8}, head);
    std::memcpy(s.data.data() + s.data.size() - sizeof(last), &last, sizeof(last));
    write_text(d / "config.json", config.dump()), write_text(d / "model.safetensors", s.bytes());
    auto file = load_model(d.string());
    EXPECT_TRUE(file) << file.error().message();
    return *file;
  };
  const ModelFile copy = load_with(true, 1, 80);  // the embedding counts from 1 to 80
  EXPECT_TRUE(copy.config.tie_embeddings);
  EXPECT_EQ(copy.find("output.weight"), nullptr);
  for (const bool tied : {true, false}) {
    const ModelFile own = load_with(tied, 50, 129);
    EXPECT_FALSE(own.config.tie_embeddings);
    EXPECT_EQ(first(own, "output.weight"), 50);
  }
  const ModelFile one = load_with(true, 1, 81);  // one element differs
  EXPECT_FALSE(one.config.tie_embeddings);
  ASSERT_NE(one.find("output.weight"), nullptr);
  EXPECT_EQ(first(one, "output.weight"), 1);
}

TEST(safetensors, refuses_broken_files) {
  const TemporaryDirectory d;
  write_text(d / "config.json", llama_config().dump());
  const auto refuse = [&](auto change, StatusCode code, std::initializer_list<const char*> words) {
    Shard s = llama_shard();
    change(s.header["model.norm.weight"], s);
    write_text(d / "model.safetensors", s.bytes());
    expect_refused(d.string(), code, words);
  };
  using enum StatusCode;
  refuse([](Json& t, Shard&) { t["dtype"] = "F8_E5M2"; }, unsupported, {"'model.norm.weight'", "'F8_E5M2'"});
  refuse([](Json& t, Shard&) { t["dtype"] = 4; }, corrupt_data, {"dtype"});
  refuse([](Json& t, Shard&) { t.erase("shape"); }, corrupt_data, {"shape"});
  refuse([](Json& t, Shard&) { t["shape"] = {9}; }, corrupt_data, {"32 bytes", "36"});
  refuse([](Json& t, Shard&) { t["shape"] = {1ull << 62, 1ull << 62}; }, corrupt_data, {"extent"});
  refuse([](Json& t, Shard&) { t["shape"] = {-8}; }, corrupt_data, {"extent"});
  refuse([](Json& t, Shard&) { t["shape"] = {8.5}; }, corrupt_data, {"extent"});
  refuse([](Json& t, Shard&) { t["shape"] = Json::array(); }, corrupt_data, {"32 bytes", "needs 4"});
  refuse([](Json& t, Shard&) { t["shape"] = {1, 1, 1, 1, 8}; }, corrupt_data, {"rank 5"});
  refuse([](Json& t, Shard&) { t["shape"] = {0, 1ull << 40, 1ull << 40}; }, corrupt_data, {"extent"});
  refuse([](Json& t, Shard&) { t["data_offsets"] = {0, 1ull << 63}; }, corrupt_data, {"bytes of data"});
  refuse([](Json& t, Shard&) { t["data_offsets"] = {32, 0}; }, corrupt_data, {"[32, 0)"});
  refuse([](Json& t, Shard&) { t["data_offsets"] = {0}; }, corrupt_data, {"data_offsets"});
  refuse([](Json& t, Shard&) { t = 3; }, corrupt_data, {"'model.norm.weight'"});
  refuse([](Json&, Shard& s) { s.header.erase("model.norm.weight"); }, not_found, {"'output_norm.weight'"});
}

// Empty tensors and those of rank 0 are valid. What a model needs must have its shape all the same.
TEST(safetensors, empty_tensors_and_scalars) {
  const TemporaryDirectory d;
  write_text(d / "config.json", llama_config().dump());
  const auto write_with = [&](const std::string& name, std::vector<index> shape, const char* dtype = "F32") {
    Shard s = llama_shard();
    s.header.erase(name);
    s.add(name, shape);
    if (shape.empty())
      s.header[name]["shape"] = Json::array();
    else
      s.header[name]["data_offsets"] = {0, 0};  // where the embedding begins
    s.header[name]["dtype"] = dtype;
    write_text(d / "model.safetensors", s.bytes());
  };
  for (const char* name : {"none.has.this", "model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.qkv"})
    for (const auto& shape : {std::vector<index>{0}, {8, 0}, {0, 3, 4}}) {
      write_with(name, shape);
      const auto file = load_model(d.string());
      EXPECT_TRUE(file) << file.error().message();
    }
  write_with("none.has.this", {0}, "F64");
  EXPECT_TRUE(load_model(d.string()));
  using enum StatusCode;
  write_with("none.has.this", {});
  expect_refused(d.string(), unsupported, {"'none.has.this'", "[]", "no place"});
  write_with("model.norm.weight", {0});
  expect_refused(d.string(), corrupt_data, {"'output_norm.weight'", "[0]", "[8]"});
  write_with("model.norm.weight", {});
  expect_refused(d.string(), corrupt_data, {"'output_norm.weight'", "[]", "[8]"});
  write_with("model.embed_tokens.weight", {0, 8});
  expect_refused(d.string(), corrupt_data, {"'token_embd.weight'", "[0, 8]"});
  write_with("model.layers.0.self_attn.rotary_emb.inv_freq", {});
  EXPECT_TRUE(load_model(d.string()));
}

TEST(safetensors, damaged_bytes_are_survived) {
  const TemporaryDirectory d;
  write_text(d / "config.json", llama_config().dump());
  const std::string good = llama_shard().bytes();
  const std::size_t head = good.find("}}") + 2;
  const auto survive = [&](const std::string& bytes) {
    write_text(d / "model.safetensors", bytes);
    const auto file = load_model(d.string());
    if (file) return true;
    EXPECT_EQ(file.error().message().find('\n'), std::string_view::npos);
    return false;
  };
  ASSERT_TRUE(survive(good));
  for (std::size_t size = 0; size < good.size(); size += size < head ? 7 : 501)
    EXPECT_FALSE(survive(good.substr(0, size))) << size;
  for (std::size_t at = 0; at < head; at += 3)
    for (const char change : {'\x01', '\x10', '\x80'}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ change);
      survive(bad);
    }
}

}  // namespace
}  // namespace inlay::exec::test
