// Layers that differ by more than a window (Gemma 4): what config.json and GGUF say of their heads and inputs. Then the
// families whose files say less than others: MiniCPM, Ministral 3, NanoChat.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <inlay/model/load.hpp>

#include "executor/model/check_model.hpp"
#include "tests/model/support/hf_config.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/model/support/unchecked_gguf.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::expect_refused;
using enum StatusCode;

Json ropes() {
  return {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}},
          {"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}}}};
}

// As google/gemma-4-31b has it, of twelve layers.
Json gemma4() {
  Json json = config_of("gemma4_text", 12);
  json["num_attention_heads"] = 32, json["num_key_value_heads"] = 16, json["head_dim"] = 256;
  json["global_head_dim"] = 512, json["num_global_key_value_heads"] = 4, json["attention_k_eq_v"] = true;
  json["hidden_size_per_layer_input"] = 0, json["sliding_window"] = 1024, json["rope_parameters"] = ropes();
  json["final_logit_softcapping"] = 30.0, json["enable_moe_block"] = false, json["num_experts"] = nullptr;
  json["use_bidirectional_attention"] = "vision", json["use_double_wide_mlp"] = false;
  return json;
}

TEST(layer_kinds, full_layers_have_heads_of_their_own) {
  const ModelConfig c = read(gemma4());
  EXPECT_EQ(c.head_dim, 512);
  EXPECT_EQ(c.kv_heads, 16);
  EXPECT_EQ(c.attn_scale, 1);
  EXPECT_EQ(c.layer_inputs.dim, 0);
  EXPECT_TRUE(c.v_norm && c.layer_scales && c.norm_weights);
  for (index i = 0; i < c.layers; ++i) {
    const LayerConfig layer = c.layer(i);
    const bool full = i % 6 == 5;
    EXPECT_EQ(layer.window, full ? 0 : 1024) << i;
    EXPECT_EQ(layer.head_dim, full ? 512 : 256) << i;
    EXPECT_EQ(layer.kv_heads, full ? 4 : 16) << i;
    EXPECT_EQ(layer.v_is_k, full) << i;
    EXPECT_EQ(layer.kv_layer, LayerConfig::own_kv) << i;
    const RopeConfig& rope = c.ropes[static_cast<std::size_t>(layer.rope)];
    EXPECT_EQ(rope.dim, layer.head_dim) << i;
    EXPECT_EQ(rope.theta, full ? 1e6 : 1e4) << i;
    EXPECT_EQ(rope.freq_factors.empty(), !full) << i;
    for (std::size_t pair = 0; full && pair < 256; ++pair)
      EXPECT_EQ(rope.freq_factors.at(pair), pair < 64 ? 1.0f : 1e30f) << pair;
  }
  // The form of newer writers, and what counts where a key is absent.
  Json newer = gemma4();
  newer.erase("global_head_dim"), newer.erase("num_global_key_value_heads");
  newer["per_layer_config"] = {{"5", {{"head_dim", 512}, {"num_key_value_heads", 4}}},
                               {"11", {{"head_dim", 512}, {"num_key_value_heads", 4}}}};
  EXPECT_EQ(read(newer).per_layer, c.per_layer);
  // It counts alone: what it does not say of a layer is as in all.
  newer["global_head_dim"] = 512, newer["num_global_key_value_heads"] = 4;
  newer["per_layer_config"]["5"].erase("num_key_value_heads");
  const ModelConfig named = read(newer);
  EXPECT_EQ(named.layer(5).head_dim, 512);
  EXPECT_EQ(named.layer(5).kv_heads, 16);
  EXPECT_EQ(named.layer(11).kv_heads, 4);
  Json silent = gemma4();
  for (const char* key :
       {"global_head_dim", "num_global_key_value_heads", "attention_k_eq_v", "hidden_size_per_layer_input"})
    silent.erase(key);
  const ModelConfig plain = read(silent);
  EXPECT_EQ(plain.layer(5).head_dim, 512);
  EXPECT_EQ(plain.layer(5).kv_heads, 16);
  EXPECT_FALSE(plain.layer(5).v_is_k);
  EXPECT_EQ(plain.layer_inputs.dim, 256);
}

TEST(layer_kinds, the_last_layer_sees_all_keys_whatever_is_listed) {
  Json json = gemma4();
  json["layer_types"] = std::vector<std::string>(12, "sliding_attention");
  json["rope_parameters"]["full_attention"]["factor"] = 8.0;
  const ModelConfig c = read(json);
  EXPECT_EQ(c.layer(10).window, 1024);
  EXPECT_EQ(c.layer(11).window, 0);
  EXPECT_EQ(c.layer(11).head_dim, 512);
  EXPECT_EQ(c.ropes[static_cast<std::size_t>(c.layer(11).rope)].freq_factors.front(), 8);
}

TEST(layer_kinds, the_last_layers_may_see_keys_and_values_of_others) {
  Json json = gemma4();
  json["num_kv_shared_layers"] = 7, json["use_double_wide_mlp"] = true;
  json["layer_types"] = {"sliding_attention", "full_attention",    "sliding_attention", "sliding_attention",
                         "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
                         "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"};
  const ModelConfig c = read(json);
  const std::vector<index> wanted = {-1, -1, -1, -1, -1, 4, 4, 1, 4, 4, 4, 1};
  for (index i = 0; i < 12; ++i) {
    EXPECT_EQ(c.layer(i).kv_layer, wanted[static_cast<std::size_t>(i)]) << i;
    EXPECT_EQ(c.layer(i).hidden, i < 5 ? 64 : 128) << i;
  }
  // Files have their tensors nevertheless.
  ModelConfig tiny = read(json);
  tiny.heads = 4, tiny.kv_heads = 2, tiny.head_dim = 8, tiny.vocab = 264;
  tiny.ropes = {{.dim = 8}};
  for (LayerConfig& layer : tiny.per_layer) layer.rope = 0, layer.kv_heads = layer.head_dim = 0;
  const WeightTensor unused{.name = "blk.5.attn_k.weight", .rank = 2, .extents = {3, 5}};
  EXPECT_TRUE(check_model(tiny_model(tiny, {unused}).file)) << check_model(tiny_model(tiny, {unused}).file).message();
  const WeightTensor unknown{.name = "blk.5.attn_x.weight", .rank = 2, .extents = {3, 5}};
  expect_refused(check_model(tiny_model(tiny, {unknown}).file), unsupported, {"blk.5.attn_x.weight"});
}

TEST(layer_kinds, wrong_keys_are_refused_by_name) {
  const auto refuse_with = [](const char* key, const Json& value, StatusCode code,
                              std::initializer_list<const char*> words) {
    Json json = gemma4();
    json[key] = value;
    refuse(json, code, words);
  };
  refuse_with("global_head_dim", 0, corrupt_data, {"head dim", "0"});
  refuse_with("num_global_key_value_heads", 5, corrupt_data, {"layer 5", "32", "5"});
  refuse_with("num_kv_shared_layers", 12, corrupt_data, {"num_kv_shared_layers", "12", "0 to 11"});
  refuse_with("num_kv_shared_layers", -1, corrupt_data, {"num_kv_shared_layers", "-1"});
  refuse_with("num_kv_shared_layers", 9, corrupt_data, {"num_kv_shared_layers", "layer 5"});  // the first full one
  refuse_with("hidden_size_per_layer_input", -4, corrupt_data, {"inputs", "-4"});
  refuse_with("per_layer_config", 3, corrupt_data, {"per_layer_config", "object"});
  refuse_with("per_layer_config", {{"12", {{"head_dim", 4}}}}, corrupt_data, {"per_layer_config", "12", "0 to 11"});
  refuse_with("per_layer_config", {{"x", {{"head_dim", 4}}}}, corrupt_data, {"per_layer_config", "x"});
  refuse_with("per_layer_config", {{"5", {{"sliding_window", 4}}}}, unsupported, {"layer 5", "sliding_window"});
  refuse_with("use_bidirectional_attention", "all", unsupported, {"use_bidirectional_attention", "all"});
  Json json = gemma4();
  json["hidden_size_per_layer_input"] = 8, json["vocab_size_per_layer_input"] = 99;
  refuse(json, unsupported, {"vocab_size_per_layer_input", "99", "100"});
  json = gemma4();
  json["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 0;
  refuse(json, corrupt_data, {"partial_rotary_factor"});
  json.erase("rope_parameters");
  refuse(json, not_found, {"rope_parameters"});
  json = config_of("llama");
  json["rope_parameters"] = {{"rope_type", "proportional"}};
  refuse(json, unsupported, {"proportional"});
}

TEST(layer_kinds, facts_that_contradict_each_other_are_refused) {
  const ModelConfig good = read(gemma4());
  const auto refuse_with = [&](const auto& change, std::initializer_list<const char*> words) {
    ModelConfig c = good;
    change(c);
    const Status status = check_config(c, "m");
    ASSERT_FALSE(status);
    expect_refused(status, status.code(), words);
  };
  ASSERT_TRUE(check_config(good, "m"));
  refuse_with([](ModelConfig& c) { c.per_layer[3].kv_layer = 3; }, {"layer 3", "before it"});
  refuse_with([](ModelConfig& c) { c.per_layer[3].kv_layer = 7; }, {"layer 3", "7"});
  refuse_with([](ModelConfig& c) { c.per_layer[3].kv_layer = -2; }, {"layer 3", "-2"});
  refuse_with([](ModelConfig& c) { c.per_layer[6].kv_layer = 5; }, {"layer 6", "same shape"});
  refuse_with([](ModelConfig& c) { c.per_layer[3].kv_layer = 2, c.per_layer[4].kv_layer = 3; }, {"layer 4"});
  refuse_with([](ModelConfig& c) { c.per_layer[0].head_dim = 1024; }, {"layer 0", "1024", "512"});
  refuse_with([](ModelConfig& c) { c.per_layer[0].head_dim = 128; }, {"rope", "layer 0", "128"});
  refuse_with([](ModelConfig& c) { c.v_norm = false; }, {"v of layer 5", "norm"});
  refuse_with([](ModelConfig& c) { c.norm_weights = false; }, {"norms without weights"});
  refuse_with([](ModelConfig& c) { c.norm = NormKind::layer, c.qk_norm = QkNorm::none; }, {"norms without weights"});
  refuse_with([](ModelConfig& c) { c.layer_inputs.dim = 8, c.activation = Activation::silu; }, {"inputs"});
  refuse_with([](ModelConfig& c) { c.layer_inputs.dim = index{1} << 40; }, {"inputs"});
  refuse_with([](ModelConfig& c) { c.ropes[0].freq_factors[0] = 0; }, {"frequency factors"});
  ModelConfig experts = good;
  experts.experts = {.count = 4, .top_k = 2, .hidden = 8, .beside = true};
  ASSERT_TRUE(check_config(experts, "m"));
  experts.experts.shared_hidden = 8;
  expect_refused(check_config(experts, "m"), unsupported, {"experts beside"});
}

TEST(layer_kinds, gguf_says_heads_by_kind) {
  const TemporaryDirectory d;
  ModelConfig c = tiny_config("gemma4");
  c.layers = 6, c.heads = 4, c.qk_norm = QkNorm::head, c.activation = Activation::gelu_tanh, c.attn_scale = 1;
  c.embed_scale = std::sqrt(32.0), c.norms = {true, true, true, true}, c.v_norm = c.layer_scales = true;
  c.layer_inputs.dim = 4, c.tie_embeddings = true;
  c.ropes = {{.dim = 16,
              .theta = 1e6,
              .scaling = RopeConfig::Scaling::freq_factors,
              .freq_factors = {1, 1, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f}},
             {.dim = 8, .theta = 1e4}};
  const LayerConfig full{.hidden = 32, .kv_heads = 1, .head_dim = 16, .v_is_k = true};
  const LayerConfig sliding{.hidden = 32, .window = 6, .rope = 1, .kv_heads = 2, .head_dim = 8};
  std::vector<LayerConfig> layers = {sliding, full, sliding, sliding, sliding, full};
  layers[4].kv_layer = 3, layers[5].kv_layer = 1, layers[5].v_is_k = false;
  c.set_layers(layers);
  ASSERT_TRUE(check_config(c, "m")) << check_config(c, "m").message();
  const TinyModel from = tiny_model(c);
  const auto report = write_gguf(from.file, d / "m.gguf");
  ASSERT_TRUE(report) << report.error().message();
  const auto to = load_model(d / "m.gguf");
  ASSERT_TRUE(to) << to.error().message();
  EXPECT_EQ(to->config.per_layer, c.per_layer);
  EXPECT_EQ(to->config.ropes, c.ropes);
  EXPECT_EQ(to->config.layer_inputs, c.layer_inputs);
  EXPECT_TRUE(to->config.v_norm && to->config.layer_scales);
  const auto refuse_file = [&](std::initializer_list<const char*> words) {
    const auto file = load_model(d / "bad.gguf");
    ASSERT_FALSE(file);
    expect_refused(file.error(), file.error().code(), words);
  };
  const auto refuse_shared = [&](index first, std::initializer_list<const char*> words) {
    ModelConfig wrong = c;
    for (index i = 0; i < 6; ++i) wrong.per_layer[static_cast<std::size_t>(i)].kv_layer = i < first ? -1 : 0;
    write_unchecked(tiny_model(wrong).file, d / "bad.gguf");
    refuse_file(words);
  };
  refuse_shared(0, {"shared_kv_layers", "6", "0 to 5"});
  refuse_shared(1, {"shared_kv_layers", "layer 1"});
  const std::string key = "gemma4.attention.value_length_swa", good = read_text(d / "m.gguf");
  std::string bad = good;
  bad.at(bad.find(key) + key.size() + 4) = 4;  // behind the number of its type
  write_text(d / "bad.gguf", bad);
  refuse_file({"value heads", "window"});
}

// What MiniCPM multiplies is what Granite does, under other names.
TEST(layer_kinds, minicpm_says_what_multiplies) {
  Json json = config_of("minicpm", 4);
  json["scale_emb"] = 12, json["scale_depth"] = 1.4, json["dim_model_base"] = 8, json["mup_denominator"] = 32;
  const ModelConfig c = read(json);
  EXPECT_EQ(c.embed_scale, 12);
  EXPECT_DOUBLE_EQ(c.residual_scale, 0.7);
  EXPECT_DOUBLE_EQ(c.logit_scale, 0.25);
  for (const char* key : {"scale_emb", "scale_depth", "dim_model_base"}) {
    Json silent = json;
    silent.erase(key);
    refuse(silent, not_found, {key});
  }
  const TemporaryDirectory d;
  ModelConfig tiny = tiny_config("minicpm");
  tiny.ropes[0].pairing = RopeConfig::Pairing::interleaved;
  tiny.embed_scale = 3, tiny.residual_scale = 0.5, tiny.logit_scale = 0.125;
  const TinyModel from = tiny_model(tiny);
  ASSERT_TRUE(write_gguf(from.file, d / "m.gguf"));
  const auto to = load_model(d / "m.gguf");
  ASSERT_TRUE(to) << to.error().message();
  EXPECT_EQ(to->config.embed_scale, 3);
  EXPECT_EQ(to->config.residual_scale, 0.5);
  EXPECT_EQ(to->config.logit_scale, 0.125);
}

// Beyond the original length q grows with the position: a text may be as long as nothing does.
TEST(layer_kinds, ministral_3_is_read_to_its_original_length) {
  Json json = config_of("ministral3");
  json["max_position_embeddings"] = 262144;
  json["rope_parameters"] = {{"rope_type", "yarn"},
                             {"factor", 16.0},
                             {"rope_theta", 1e6},
                             {"mscale", 1.0},
                             {"original_max_position_embeddings", 16384},
                             {"mscale_all_dim", 1.0},
                             {"max_position_embeddings", 262144},
                             {"llama_4_scaling_beta", 0.1}};
  EXPECT_EQ(read(json).context, 16384);
  EXPECT_EQ(read(json).ropes[0].attention_factor, 1);
  json["rope_parameters"]["llama_4_scaling_beta"] = 0;
  EXPECT_EQ(read(json).context, 262144);
  Json llama = config_of("llama");
  llama["rope_parameters"] = json["rope_parameters"];
  refuse(llama, unsupported, {"llama_4_scaling_beta"});

  const TemporaryDirectory d;
  const auto loaded = [&](float beta) {
    TinyModel tiny = tiny_model("llama");
    tiny.file.config.architecture = "ministral3";
    write_unchecked(tiny.file, d / "m.gguf", [&](GgufWriter& writer) {
      writer.set("mistral3.rope.scaling.type", "yarn"), writer.set("mistral3.rope.scaling.factor", 4.0f);
      writer.set("mistral3.rope.scaling.original_context_length", std::uint32_t{16});
      writer.set("mistral3.rope.scaling.yarn_log_multiplier", 1.0f);
      writer.set("mistral3.attention.temperature_scale", beta);
    });
    return load_model(d / "m.gguf");
  };
  const auto file = loaded(0.1f);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->config.context, 16);
  EXPECT_DOUBLE_EQ(file->config.ropes[0].attention_factor, 1);
  EXPECT_EQ(loaded(0)->config.context, 64);
}

TEST(layer_kinds, nanochat_turns_the_other_way) {
  Json json = config_of("nanochat");
  const ModelConfig c = read(json);
  EXPECT_TRUE(c.embed_norm && !c.norm_weights);
  EXPECT_EQ(c.final_softcap, 15);
  EXPECT_EQ(c.ropes[0].freq_factors, std::vector<float>(4, -1.0f));
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  refuse(json, unsupported, {"rope_scaling", "none"});
}

// Granite 4 without Mamba: the expert that all tokens have is the feed-forward where there are no others.
TEST(layer_kinds, granite_4_says_which_layers_attend) {
  Json json = config_of("granitemoehybrid", 2);
  json["num_local_experts"] = 0, json["num_experts_per_tok"] = 0, json["shared_intermediate_size"] = 40;
  json["layer_types"] = {"attention", "attention"}, json["mamba_d_state"] = 256;
  ModelConfig c = read(json);
  EXPECT_EQ(c.hidden, 40);
  EXPECT_EQ(c.experts, ExpertsConfig());
  EXPECT_EQ(c.layer(0).rope, LayerConfig::no_rope);
  json["position_embedding_type"] = "rope";
  EXPECT_EQ(read(json).layer(0).rope, 0);
  json["num_local_experts"] = 4, json["num_experts_per_tok"] = 2;
  c = read(json);
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.experts.shared_hidden, 40);
  json["position_embedding_type"] = "alibi";
  refuse(json, unsupported, {"position_embedding_type", "alibi"});
  json["position_embedding_type"] = "nope", json["layer_types"] = {"attention", "mamba"};
  refuse(json, unsupported, {"layer_types", "mamba", "entry 1"});
  json.erase("layer_types");
  refuse(json, unsupported, {"layer_types", "Mamba"});
}

}  // namespace
}  // namespace inlay::exec::test
