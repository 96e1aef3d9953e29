// What files leave unsaid and families know (executor/model/family.cpp), and the forms that some of them have.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <inlay/model/load.hpp>
#include <inlay/model/model_ropes.hpp>

#include "executor/model/family.hpp"
#include "tests/model/support/hf_config.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/model/support/unchecked_gguf.hpp"

namespace inlay::exec::test {
namespace {

TEST(families, a_key_that_nobody_reads_is_refused_by_name) {
  for (const char* architecture : {"llama", "gemma3_text", "granite", "smollm3"}) {
    Json json = config_of(architecture);
    json["torch_dtype"] = "bfloat16", json["attention_dropout"] = 0.1, json["transformers_version"] = "5.0";
    json["unsloth_fixed"] = true, json["pad_token_id"] = 3, json["scores_are_doubled"] = nullptr;
    EXPECT_TRUE(config_from(json)) << config_from(json).error().message();
    json["scores_are_doubled"] = true;
    refuse(json, StatusCode::unsupported, {"'scores_are_doubled'", "'true'", architecture});
  }
  Json json = config_of("llama");
  json["residual_multiplier"] = 0.5;  // Granite's
  refuse(json, StatusCode::unsupported, {"'residual_multiplier'", "0.5", "'llama'"});
  json = config_of("llama"), json["rope_interleaved"] = false;  // SmolLM2's
  EXPECT_TRUE(config_from(json));
  json["rope_interleaved"] = true;
  refuse(json, StatusCode::unsupported, {"'rope_interleaved'"});
  json = config_of("gemma"), json["final_logit_softcapping"] = nullptr;
  EXPECT_TRUE(config_from(json));
  json["final_logit_softcapping"] = 30.0;
  refuse(json, StatusCode::unsupported, {"'final_logit_softcapping'", "30"});
}

// Null is none, and no key the family's own.
TEST(families, caps_of_scores_and_logits) {
  const auto caps = [](const Json& json) {
    const ModelConfig config = read(json);
    return std::pair(config.attn_softcap, config.final_softcap);
  };
  Json json = config_of("gemma2");
  EXPECT_EQ(caps(json), std::pair(50.0, 30.0));
  EXPECT_EQ(caps(config_of("gemma3_text")), std::pair(0.0, 0.0));
  json["attn_logit_softcapping"] = nullptr, json["final_logit_softcapping"] = 12.5;
  EXPECT_EQ(caps(json), std::pair(0.0, 12.5));
  json["model_type"] = "gemma3_text";
  EXPECT_EQ(caps(json), std::pair(0.0, 12.5));
  json["final_logit_softcapping"] = -1;
  refuse(json, StatusCode::corrupt_data, {"caps", "positive"});
}

// Their norms take the mean off; branches side by side have one norm.
TEST(families, layer_norms_and_parallel_blocks) {
  const ModelConfig cohere = read(config_of("cohere"));
  EXPECT_EQ(cohere.norm, NormKind::layer);
  EXPECT_TRUE(cohere.parallel && !cohere.norm_bias && !cohere.norms.before_ffn);
  EXPECT_EQ(cohere.logit_scale, 0.0625);
  EXPECT_EQ(cohere.ropes[0].pairing, RopeConfig::Pairing::interleaved);
  Json json = config_of("cohere");
  EXPECT_EQ(read(json).qk_norm, QkNorm::none);
  json["use_qk_norm"] = true;
  EXPECT_EQ(read(json).qk_norm, QkNorm::each_head);
  json["model_type"] = "cohere2";
  refuse(json, StatusCode::unsupported, {"use_qk_norm", "true"});
  json = config_of("stablelm"), json["qk_layernorm"] = true;
  EXPECT_EQ(read(json).qk_norm, QkNorm::each_head);
  json = config_of("stablelm");
  EXPECT_TRUE(read(json).norm_bias && read(json).norms.before_ffn && !read(json).parallel);
  EXPECT_EQ(read(json).ropes[0].dim, 2);
  json["use_parallel_residual"] = true, json["layer_norm_eps"] = 0.25;
  EXPECT_TRUE(read(json).parallel && !read(json).norms.before_ffn);
  EXPECT_EQ(read(json).norm_eps, 0.25);
  json["rms_norm_eps"] = 1e-5;  // another family's
  refuse(json, StatusCode::unsupported, {"rms_norm_eps"});
  const ModelConfig phi = read(config_of("phi"));
  EXPECT_TRUE(phi.parallel && phi.head_bias && phi.mlp_bias && phi.qkv_bias && phi.output_bias && !phi.gated);
  json = config_of("starcoder2");
  json["hidden_act"] = "gelu", json["mlp_type"] = "default", json["activation_function"] = "gelu";
  EXPECT_EQ(read(json).activation, Activation::gelu);  // which is Gemma's word for another one
  EXPECT_EQ(read(config_of("gemma")).activation, Activation::gelu_tanh);
}

TEST(families, without_a_gate_there_is_no_silu) {
  Json json = config_of("arcee");
  EXPECT_FALSE(read(json).gated);
  EXPECT_EQ(read(json).activation, Activation::relu_squared);
  json["hidden_act"] = "gelu";
  EXPECT_EQ(read(json).activation, Activation::gelu);
  json["hidden_act"] = "silu";
  refuse(json, StatusCode::unsupported, {"silu", "gate"});
}

// What transformers takes where a file says nothing (CONFIG_MAPPING[..]() of 5.24).
TEST(families, defaults_are_those_of_transformers) {
  struct Row {
    const char* name;
    index context, head_dim;
    double eps, theta;
    bool tied;
  };
  constexpr Row rows[] = {
      {"llama", 2048, 8, 1e-6, 1e4, false},
      {"mistral", 131072, 8, 1e-6, 1e4, false},
      {"qwen2", 32768, 8, 1e-6, 1e4, false},
      {"qwen3", 32768, 128, 1e-6, 1e4, false},
      {"gemma", 8192, 256, 1e-6, 1e4, true},
      {"gemma2", 8192, 256, 1e-6, 1e4, true},
      {"gemma3_text", 131072, 256, 1e-6, 1e6, true},
      {"granite", 2048, 8, 1e-6, 1e4, false},
      {"olmo2", 2048, 8, 1e-5, 1e4, false},
      {"olmo3", 2048, 8, 1e-5, 5e5, false},
      {"smollm3", 32768, 8, 1e-6, 2e6, true},
      {"phi3", 4096, 8, 1e-5, 1e4, false},
      {"glm", 131072, 128, 1.5625e-7, 1e4, false},
      {"glm4", 131072, 128, 1.5625e-7, 1e4, false},
      {"helium", 4096, 128, 1e-8, 1e5, false},
      {"ernie4_5", 131072, 128, 1e-5, 5e5, true},
      {"seed_oss", 524288, 128, 1e-6, 1e4, false},
      {"ministral", 131072, 8, 1e-6, 1e4, false},
      {"exaone4", 2048, 8, 1e-5, 1e4, false},
      {"arcee", 4096, 8, 1e-5, 1e4, false},
      {"cohere", 8192, 8, 1e-5, 5e5, true},
      {"cohere2", 8192, 8, 1e-5, 1e4, true},
      {"stablelm", 4096, 8, 1e-5, 1e4, false},
      {"phi", 2048, 8, 1e-5, 1e4, false},
      {"starcoder2", 4096, 8, 1e-5, 1e4, true},
      {"nemotron", 4096, 8, 1e-5, 1e4, false},
      {"hunyuan_v1_dense", 2048, 8, 1e-5, 1e4, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Json json = config_of(row.name, 8);
    json.erase("max_position_embeddings");
    const ModelConfig config = read(json);
    EXPECT_EQ(config.context, row.context);
    EXPECT_EQ(config.head_dim, row.head_dim);
    EXPECT_EQ(config.norm_eps, row.eps);
    EXPECT_EQ(config.ropes[0].theta, row.theta);
    EXPECT_EQ(config.tie_embeddings, row.tied);
  }
  refuse(config_of("cwm"), StatusCode::not_found, {"rope_parameters"});  // Llama 3's scaling, which a file must say
}

TEST(families, windows_and_ropes_that_go_without_saying) {
  const auto windows = [](const ModelConfig& config) {
    std::vector<index> all;
    for (index i = 0; i < config.layers; ++i) all.push_back(config.layer(i).window);
    return all;
  };
  const auto ropes = [](const ModelConfig& config) {
    std::vector<int> all;
    for (index i = 0; i < config.layers; ++i) all.push_back(config.layer(i).rope);
    return all;
  };
  constexpr index w = 4096;
  constexpr int none = LayerConfig::no_rope;
  const ModelConfig gemma = read(config_of("gemma3_text", 7));
  EXPECT_EQ(windows(gemma), (std::vector<index>{w, w, w, w, w, 0, w}));
  EXPECT_EQ(ropes(gemma), (std::vector<int>{1, 1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(gemma.ropes[1].theta, 1e4);
  EXPECT_EQ(windows(read(config_of("gemma2", 3))), (std::vector<index>{w, 0, w}));
  EXPECT_EQ(windows(read(config_of("olmo3", 5))), (std::vector<index>{w, w, w, 0, w}));
  EXPECT_EQ(windows(read(config_of("exaone4", 5))), (std::vector<index>{w, w, w, 0, w}));
  EXPECT_EQ(ropes(read(config_of("exaone4", 5))), (std::vector<int>{0, 0, 0, none, 0}));
  EXPECT_EQ(windows(read(config_of("cohere2", 5))), (std::vector<index>{w, w, w, 0, w}));
  EXPECT_EQ(ropes(read(config_of("cohere2", 5))), (std::vector<int>{0, 0, 0, none, 0}));
  EXPECT_EQ(ropes(read(config_of("smollm3", 5))), (std::vector<int>{0, 0, 0, none, 0}));
  Json json = config_of("smollm3", 3);
  json["no_rope_layer_interval"] = 2;
  EXPECT_EQ(ropes(read(json)), (std::vector<int>{0, none, 0}));
  json["no_rope_layers"] = {0, 1, 0};
  EXPECT_EQ(ropes(read(json)), (std::vector<int>{none, 0, none}));
  json["no_rope_layers"] = {0, 2, 0};
  refuse(json, StatusCode::corrupt_data, {"no_rope_layers", "'2'"});
  json = config_of("gemma3_text", 4), json["_sliding_window_pattern"] = 2, json["sliding_window"] = 16;
  EXPECT_EQ(windows(read(json)), (std::vector<index>{16, 0, 16, 0}));
  json["_sliding_window_pattern"] = 0;
  refuse(json, StatusCode::corrupt_data, {"sliding_window_pattern", "0"});
  json = config_of("llama", 2), json["layer_types"] = {"full_attention", "sliding_attention"};
  json["sliding_window"] = 16;
  refuse(json, StatusCode::unsupported, {"layer_types", "entry 1"});
}

TEST(families, the_text_of_several_modalities) {
  Json text = config_of("gemma3_text", 2);
  text.erase("num_attention_heads"), text.erase("num_key_value_heads"), text.erase("vocab_size");
  const Json json = {{"model_type", "gemma3"}, {"text_config", text}, {"vision_config", {{"hidden_size", 8}}}};
  const ModelConfig config = read(json);
  EXPECT_EQ(config.architecture, "gemma3_text");
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.vocab, 262208);
}

TEST(families, longrope_goes_by_the_context_of_the_session) {
  Json json = config_of("phi3");
  json["original_max_position_embeddings"] = 64, json["max_position_embeddings"] = 512;
  json["rope_scaling"] = {{"type", "su"}, {"short_factor", {1, 2, 4, 8}}, {"long_factor", {3, 5, 7, 9}}};
  const RopeConfig rope = read(json).ropes[0];
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1 + std::log(8.0) / std::log(64.0)));
  const auto plain = frequencies_of({.dim = 8}, 64), within = frequencies_of(rope, 64),
             beyond = frequencies_of(rope, 65);
  ASSERT_TRUE(plain && within && beyond);
  for (index i = 0; i < 4; ++i) {
    EXPECT_NEAR((*within)[i], (*plain)[i] / (1 << i), 1e-7);
    EXPECT_NEAR((*beyond)[i], (*plain)[i] / static_cast<double>(3 + 2 * i), 1e-7);
  }
  json["rope_scaling"]["long_factor"] = {3, 5, 7};
  refuse(json, StatusCode::corrupt_data, {"long_factor", "4"});
  json["rope_scaling"]["long_factor"] = {3, 5, 7, "9"};
  refuse(json, StatusCode::corrupt_data, {"long_factor", "9", "numbers"});
  json["rope_scaling"]["long_factor"] = {3, 5, 7, -9};
  refuse(json, StatusCode::corrupt_data, {"factors", "positive"});
}

// llama.cpp's keys for Gemma 3, of which most files say only the window.
TEST(families, gemma3_in_gguf) {
  ModelConfig c = tiny_config("gemma3");
  c.layers = 7;
  c.norms = {true, true, true, true}, c.qk_norm = QkNorm::head;
  c.ropes[0].theta = 1e6;
  const TinyModel tiny = tiny_model(c);
  const TemporaryDirectory d;
  write_unchecked(tiny.file, d / "m.gguf",
                  [](GgufWriter& writer) { writer.set("gemma3.attention.sliding_window", std::uint32_t{16}); });
  auto file = load_model(d / "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
  for (index i = 0; i < 7; ++i) {
    const LayerConfig layer = file->config.layer(i);
    EXPECT_EQ(layer.window, i == 5 ? 0 : 16) << i;
    EXPECT_EQ(file->config.ropes.at(static_cast<std::size_t>(layer.rope)).theta, i == 5 ? 1e6 : 1e4) << i;
  }
  EXPECT_EQ(file->config.activation, Activation::gelu_tanh);
  EXPECT_DOUBLE_EQ(file->config.embed_scale, std::sqrt(32.0));
  EXPECT_DOUBLE_EQ(file->config.attn_scale, 1 / std::sqrt(8.0));
  write_unchecked(tiny.file, d / "m.gguf", [](GgufWriter& writer) {
    writer.set("gemma3.attention.sliding_window", std::uint32_t{16});
    writer.set("gemma3.attention.sliding_window_pattern", std::uint32_t{2});
  });
  file = load_model(d / "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->config.layer(0).window, 16);
  EXPECT_EQ(file->config.layer(1).window, 0);
}

// llama.cpp's keys for Gemma 2. Caps that a file does not say are the family's; of 46 layers scores are scaled by
// (dim / heads)^-1/2.
TEST(families, gemma2_in_gguf) {
  ModelConfig c = tiny_config("gemma2");
  c.layers = 3;
  c.norms = {true, true, true, true};
  c.attn_softcap = 25, c.final_softcap = 15;
  const TemporaryDirectory d;
  const auto read_from = [&](const ModelConfig& config, const std::function<void(GgufWriter&)>& change) {
    const TinyModel tiny = tiny_model(config);
    write_unchecked(tiny.file, d / "m.gguf", change);
    auto file = load_model(d / "m.gguf");
    EXPECT_TRUE(file) << file.error().message();
    return file ? file->config : ModelConfig{};
  };
  const ModelConfig plain =
      read_from(c, [](GgufWriter& writer) { writer.set("gemma2.attention.sliding_window", std::uint32_t{16}); });
  EXPECT_EQ(plain.attn_softcap, 25);
  EXPECT_EQ(plain.final_softcap, 15);
  EXPECT_EQ(plain.layer(0).window, 16);
  EXPECT_EQ(plain.layer(1).window, 0);
  EXPECT_DOUBLE_EQ(plain.attn_scale, 1 / std::sqrt(8.0));
  c.layers = 46, c.heads = 8;
  c.attn_softcap = 50, c.final_softcap = 30;  // which are not written
  const ModelConfig largest = read_from(c, [](GgufWriter&) {});
  EXPECT_DOUBLE_EQ(largest.attn_scale, 1 / std::sqrt(4.0));
  EXPECT_EQ(largest.attn_softcap, 50);
  EXPECT_EQ(largest.final_softcap, 30);
}

// llama.cpp's way for StableLM: a layer without a norm of its feed-forward is a parallel one, whatever the key says.
TEST(families, stablelm_in_gguf) {
  for (const bool parallel : {false, true}) {
    ModelConfig c = tiny_config("stablelm");
    c.norm = NormKind::layer, c.norm_bias = true, c.parallel = parallel, c.norms.before_ffn = !parallel;
    TinyModel tiny = tiny_model(c);
    const TemporaryDirectory d;
    tiny.file.config.parallel = true;  // what the key becomes
    write_unchecked(tiny.file, d / "m.gguf");
    const auto file = load_model(d / "m.gguf");
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(file->config.parallel, parallel);
    EXPECT_TRUE(file->config.norm_bias);
    EXPECT_EQ(file->config.norm, NormKind::layer);
  }
}

// Phi-3's in GGUF: q, k and v in one tensor, gate and up in another.
TEST(families, fused_tensors_are_read_as_their_parts) {
  ModelConfig c = tiny_config("phi3");
  c.layers = 2;
  TinyModel fused = tiny_model(c);
  std::vector<WeightTensor> tensors;
  for (const WeightTensor& each : fused.file.tensors())
    if (each.name.find("attn_q.") == std::string::npos && each.name.find("attn_k.") == std::string::npos &&
        each.name.find("attn_v.") == std::string::npos && each.name.find("ffn_gate.") == std::string::npos &&
        each.name.find("ffn_up.") == std::string::npos)
      tensors.push_back(each);
  std::vector<std::shared_ptr<const Mapping>> memory;
  const index qkv_rows = (4 + 2 * 2) * 8;
  for (index layer = 0; layer < 2; ++layer) {
    fused.add(tensors, {.name = block_name(layer, "attn_qkv.weight"), .rank = 2, .extents = {qkv_rows, 32}});
    fused.add(tensors, {.name = block_name(layer, "ffn_up.weight"), .rank = 2, .extents = {64, 32}});
  }
  for (const auto& v : fused.values) memory.push_back(Mapping::borrow(std::as_bytes(std::span(v))));
  fused.file.set_tensors(tensors, memory);
  const TemporaryDirectory d;
  write_unchecked(fused.file, d / "m.gguf");
  const auto file = load_model(d / "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
  for (index layer = 0; layer < 2; ++layer) {
    const auto first = [&](const char* part) {
      return *reinterpret_cast<const float*>(file->find(block_name(layer, part))->data);
    };
    const std::vector<float>& qkv = fused.of(block_name(layer, "attn_qkv.weight"));
    const std::vector<float>& up = fused.of(block_name(layer, "ffn_up.weight"));
    EXPECT_EQ(first("attn_q.weight"), qkv[0]);
    EXPECT_EQ(first("attn_k.weight"), qkv[4 * 8 * 32]);
    EXPECT_EQ(first("attn_v.weight"), qkv[6 * 8 * 32]);
    EXPECT_EQ(first("ffn_gate.weight"), up[0]);
    EXPECT_EQ(first("ffn_up.weight"), up[32 * 32]);
  }
  // A row too many, and a part that is there by itself as well.
  const auto expect_refused = [&](std::vector<WeightTensor> changed, const char* word) {
    fused.file.set_tensors(std::move(changed), memory);
    write_unchecked(fused.file, d / "m.gguf");
    const auto refused = load_model(d / "m.gguf");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), StatusCode::corrupt_data);
    EXPECT_NE(refused.error().message().find(word), std::string_view::npos) << refused.error().message();
  };
  for (WeightTensor& each : tensors)
    if (each.name == "blk.1.attn_qkv.weight") each.extents[0] -= 1;
  expect_refused(tensors, "'blk.1.attn_qkv.weight'");
  for (WeightTensor& each : tensors)
    if (each.name == "blk.1.attn_qkv.weight") each.extents[0] += 1;
  fused.add(tensors, {.name = "blk.0.attn_k.weight", .rank = 2, .extents = {16, 32}});
  memory.push_back(Mapping::borrow(std::as_bytes(std::span(fused.values.back()))));
  expect_refused(tensors, "'blk.0.attn_k.weight'");
}

}  // namespace
}  // namespace inlay::exec::test
