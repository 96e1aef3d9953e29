// What config.json says, and that nothing of it that changes the numbers is passed over.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/model/support/hf_config.hpp"

namespace inlay::exec::test {
namespace {

std::vector<index> windows(const ModelConfig& config) {
  std::vector<index> all;
  for (index i = 0; i < config.layers; ++i) all.push_back(config.layer(i).window);
  return all;
}

const RopeConfig& rope_of(const ModelConfig& config, index layer) {
  return config.ropes.at(static_cast<std::size_t>(config.layer(layer).rope));
}

std::vector<double> thetas(const ModelConfig& config) {
  std::vector<double> all;
  for (index i = 0; i < config.layers; ++i) all.push_back(rope_of(config, i).theta);
  return all;
}

// Qwen counts full layers from below: the window begins with layer `max_window_layers`.
TEST(hf_config, qwen_windows_the_layers_from_max_window_layers_on) {
  for (const char* architecture : {"qwen2", "qwen3"}) {
    Json json = config_of(architecture, 4);
    json["use_sliding_window"] = true, json["sliding_window"] = 16;
    const auto with = [&](int full) {
      json["max_window_layers"] = full;
      return windows(read(json));
    };
    EXPECT_EQ(with(4), (std::vector<index>{0, 0, 0, 0}));
    EXPECT_EQ(with(28), (std::vector<index>{0, 0, 0, 0}));
    EXPECT_EQ(with(3), (std::vector<index>{0, 0, 0, 16}));
    EXPECT_EQ(with(1), (std::vector<index>{0, 16, 16, 16}));
    EXPECT_EQ(with(0), (std::vector<index>{16, 16, 16, 16}));
    json.erase("max_window_layers");  // transformers' default is 28
    EXPECT_EQ(windows(read(json)), (std::vector<index>{0, 0, 0, 0}));
    json["num_hidden_layers"] = 30;
    EXPECT_EQ(read(json).layer(27).window, 0);
    EXPECT_EQ(read(json).layer(28).window, 16);
    json["num_hidden_layers"] = 4, json["max_window_layers"] = 0;
    json["use_sliding_window"] = false;
    EXPECT_EQ(windows(read(json)), (std::vector<index>{0, 0, 0, 0}));
    json.erase("use_sliding_window");
    EXPECT_EQ(windows(read(json)), (std::vector<index>{0, 0, 0, 0}));
  }
}

TEST(hf_config, mistral_windows_all_layers) {
  Json json = config_of("mistral", 2);
  json["sliding_window"] = 16;
  EXPECT_EQ(windows(read(json)), (std::vector<index>{16, 16}));
  json["sliding_window"] = nullptr;
  EXPECT_EQ(windows(read(json)), (std::vector<index>{0, 0}));
}

TEST(hf_config, layer_types_overrule) {
  Json json = config_of("qwen2", 4);
  json["use_sliding_window"] = true, json["sliding_window"] = 16, json["max_window_layers"] = 0;
  json["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(windows(read(json)), (std::vector<index>{16, 0, 16, 0}));
  json["model_type"] = "mistral";
  EXPECT_EQ(windows(read(json)), (std::vector<index>{16, 0, 16, 0}));
  json["layer_types"] = std::vector<std::string>(4, "full_attention");
  EXPECT_EQ(windows(read(json)), (std::vector<index>{0, 0, 0, 0}));
  EXPECT_TRUE(read(json).per_layer.empty());

  json["layer_types"] = {"full_attention", "full_attention"};
  refuse(json, StatusCode::corrupt_data, {"layer_types", "2", "4"});
  json["layer_types"] = {"full_attention", "chunked_attention", "full_attention", "full_attention"};
  refuse(json, StatusCode::unsupported, {"layer_types", "'chunked_attention'", "sliding_attention"});
  json["layer_types"] = "full_attention";
  refuse(json, StatusCode::corrupt_data, {"layer_types"});
  json["layer_types"] = std::vector<std::string>(4, "sliding_attention");
  json["model_type"] = "qwen2", json["use_sliding_window"] = false;  // types without a window
  refuse(json, StatusCode::corrupt_data, {"layer_types", "sliding_window"});
}

// transformers: attention_factor, or m(mscale) / m(mscale_all_dim), or m(1), with m(s) = 0.1 s ln(factor) + 1.
TEST(hf_config, yarn_scales_as_mscale_says) {
  Json json = config_of("llama", 1);
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 512}};
  Json& yarn = json["rope_scaling"];
  const double log = std::log(8.0);
  EXPECT_DOUBLE_EQ(read(json).ropes[0].attention_factor, 0.1 * log + 1);
  yarn["mscale"] = 0.707;
  EXPECT_DOUBLE_EQ(read(json).ropes[0].attention_factor, 0.1 * log + 1);  // one alone says nothing
  yarn["mscale_all_dim"] = 1.2;
  EXPECT_DOUBLE_EQ(read(json).ropes[0].attention_factor, (0.0707 * log + 1) / (0.12 * log + 1));
  yarn["attention_factor"] = 1.5;
  EXPECT_DOUBLE_EQ(read(json).ropes[0].attention_factor, 1.5);
  yarn["attention_factor"] = nullptr;
  yarn["mscale_all_dim"] = 0.707;
  EXPECT_DOUBLE_EQ(read(json).ropes[0].attention_factor, 1);
  yarn["mscale"] = "big";
  refuse(json, StatusCode::corrupt_data, {"'mscale'"});
}

TEST(hf_config, yarn_truncates_unless_told_not_to) {
  Json json = config_of("llama", 1);
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 512}};
  EXPECT_TRUE(read(json).ropes[0].truncate);
  json["rope_scaling"]["truncate"] = false;
  EXPECT_FALSE(read(json).ropes[0].truncate);
  json["rope_scaling"]["truncate"] = true;
  EXPECT_TRUE(read(json).ropes[0].truncate);
  json["rope_scaling"]["truncate"] = 1;
  refuse(json, StatusCode::corrupt_data, {"'truncate'"});
}

// As transformers has it: its older key wins as a whole, theta and all, unless it is empty.
TEST(hf_config, rope_scaling_wins_over_rope_parameters) {
  Json json = config_of("llama", 1);
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(read(json).ropes[0].scaling, RopeConfig::Scaling::linear);
  EXPECT_EQ(read(json).ropes[0].factor, 4);
  EXPECT_EQ(read(json).ropes[0].theta, 1e4);
  json["rope_theta"] = 1e6;
  EXPECT_EQ(read(json).ropes[0].theta, 1e6);
  for (const Json& none : {Json(nullptr), Json::object()}) {
    json["rope_scaling"] = none;
    EXPECT_EQ(read(json).ropes[0].scaling, RopeConfig::Scaling::none);
    EXPECT_EQ(read(json).ropes[0].theta, 5e5);
  }
}

TEST(hf_config, the_original_context_may_stand_at_the_top) {
  for (const char* type : {"yarn", "llama3"}) {
    Json json = config_of("llama", 1);
    Json& scaling = json["rope_parameters"];
    scaling = {{"rope_type", type}, {"factor", 8.0}};
    if (type == std::string_view("llama3")) scaling["low_freq_factor"] = 1.0, scaling["high_freq_factor"] = 4.0;
    EXPECT_EQ(read(json).ropes[0].original_context, 4096);
    json["original_max_position_embeddings"] = 64;
    EXPECT_EQ(read(json).ropes[0].original_context, 64);
    scaling["original_max_position_embeddings"] = 64;
    const auto factors = read(json).ropes[0].freq_factors;
    json.erase("original_max_position_embeddings");
    EXPECT_EQ(read(json).ropes[0].freq_factors, factors);
    json["original_max_position_embeddings"] = 128;
    refuse(json, StatusCode::corrupt_data, {"original_max_position_embeddings", "64", "128"});
    json["original_max_position_embeddings"] = "long";
    refuse(json, StatusCode::corrupt_data, {"original_max_position_embeddings"});
  }
}

// transformers: the quotient of the two lengths.
TEST(hf_config, yarn_with_a_factor_of_null) {
  Json json = config_of("llama", 1);
  json["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 512}};
  EXPECT_EQ(read(json).ropes[0].factor, 8);
  EXPECT_DOUBLE_EQ(read(json).ropes[0].attention_factor, 0.1 * std::log(8.0) + 1);
}

TEST(hf_config, unknown_keys_of_a_scaling_are_refused) {
  for (const char* key : {"mrope_section", "short_factor", "ext_factor"})
    for (const char* type : {"default", "linear", "yarn"}) {
      Json json = config_of("qwen2", 1);
      json["rope_scaling"] = {{"type", type}, {"factor", 2.0}, {key, 1}};
      refuse(json, StatusCode::unsupported, {"rope_scaling", key});
    }
  Json json = config_of("llama", 1);
  json["rope_scaling"] = {{"type", "yarn"}, {"factor", 2.0}, {"finetuned", true}};
  EXPECT_EQ(read(json).ropes[0].factor, 2);
}

TEST(hf_config, a_scaling_without_its_factor_is_refused) {
  for (const char* type : {"linear", "yarn", "llama3"}) {
    Json json = config_of("llama", 1);
    json["rope_scaling"] = {{"rope_type", type}};
    refuse(json, StatusCode::not_found, {"rope_scaling", "'factor'"});
  }
  Json json = config_of("llama", 1);
  json["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}};
  refuse(json, StatusCode::not_found, {"'high_freq_factor'"});
}

// What transformers takes where a file says nothing, and spellings that mean the same.
TEST(hf_config, defaults_and_spellings_of_transformers) {
  for (const auto& [architecture, context] : {std::pair{"llama", 2048}, {"mistral", 131072}, {"qwen2", 32768}}) {
    Json json = config_of(architecture, 1);
    json.erase("max_position_embeddings");
    EXPECT_EQ(read(json).context, context) << architecture;
  }
  EXPECT_EQ(read(config_of("llama", 1)).head_dim, 8);
  EXPECT_EQ(read(config_of("qwen3", 1)).head_dim, 128);
  Json json = config_of("llama", 1);
  json["hidden_size"] = 32.0, json["hidden_act"] = "swish";
  EXPECT_EQ(read(json).dim, 32);
  json["hidden_size"] = 32.5;
  refuse(json, StatusCode::corrupt_data, {"hidden_size", "integer"});
  json["hidden_size"] = 1e300;
  refuse(json, StatusCode::corrupt_data, {"hidden_size", "integer"});
  json["hidden_size"] = 32, json["hidden_act"] = "gelu";
  EXPECT_EQ(read(json).activation, Activation::gelu);
  json["hidden_act"] = "relu6";
  refuse(json, StatusCode::unsupported, {"relu6", "silu"});
}

TEST(hf_config, part_of_a_head_may_turn) {
  Json json = config_of("llama", 1);
  json["partial_rotary_factor"] = 0.5;
  refuse(json, StatusCode::unsupported, {"partial_rotary_factor", "0.5"});
  json = config_of("phi3", 1);
  EXPECT_EQ(read(json).ropes[0].dim, 8);
  json["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(read(json).ropes[0].dim, 4);
  json["rope_parameters"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.25}};
  EXPECT_EQ(read(json).ropes[0].dim, 2);
  json["rope_parameters"] = {{"full_attention", {{"rope_theta", 1e5}, {"partial_rotary_factor", 0.25}}}};
  EXPECT_EQ(read(json).ropes[0].dim, 2);
  EXPECT_EQ(read(json).ropes[0].theta, 1e5);
  json["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 1.5;
  refuse(json, StatusCode::corrupt_data, {"partial_rotary_factor"});
}

TEST(hf_config, feed_forward_width_of_each_layer) {
  Json json = config_of("llama", 3);
  json["intermediate_size"] = {64, 96, 64};
  const ModelConfig config = read(json);
  EXPECT_EQ(config.hidden, 96);
  EXPECT_EQ(config.layer(0).hidden, 64);
  EXPECT_EQ(config.layer(1).hidden, 96);
  json["intermediate_size"] = {64, 64, 64};
  EXPECT_TRUE(read(json).per_layer.empty());
  EXPECT_EQ(read(json).hidden, 64);
  json["intermediate_size"] = {64, 64};
  refuse(json, StatusCode::corrupt_data, {"intermediate_size", "2", "3"});
  json["intermediate_size"] = {64, -1, 64};
  refuse(json, StatusCode::corrupt_data, {"hidden", "-1"});
  json["intermediate_size"] = {64, "64", 64};
  refuse(json, StatusCode::corrupt_data, {"intermediate_size"});
}

// Newer files: a theta for each kind of layer.
TEST(hf_config, theta_of_each_kind_of_layer) {
  Json json = config_of("qwen3", 3);
  json["use_sliding_window"] = true, json["sliding_window"] = 16;
  json["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  Json& rope = json["rope_parameters"];
  rope = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  ModelConfig config = read(json);
  EXPECT_EQ(thetas(config), (std::vector<double>{1e4, 1e6, 1e4}));
  rope["sliding_attention"]["rope_type"] = "linear", rope["sliding_attention"]["factor"] = 2.0;
  config = read(json);
  EXPECT_EQ(rope_of(config, 0).factor, 2);
  EXPECT_EQ(rope_of(config, 1).scaling, RopeConfig::Scaling::none);
  rope = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}}};
  refuse(json, StatusCode::not_found, {"rope_parameters", "sliding_attention"});
  rope = {{"rope_type", "default"}, {"rope_theta", 1e5}};
  EXPECT_EQ(thetas(read(json)), (std::vector<double>{1e5, 1e5, 1e5}));
  json.erase("rope_parameters");
  json["rope_theta"] = 1e6, json["rope_local_base_freq"] = 1e4;  // Gemma 3's word for it
  EXPECT_EQ(thetas(read(json)), (std::vector<double>{1e4, 1e6, 1e4}));
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};  // which does not touch layers with a window
  config = read(json);
  EXPECT_EQ(thetas(config), (std::vector<double>{1e4, 1e6, 1e4}));
  EXPECT_EQ(rope_of(config, 0).scaling, RopeConfig::Scaling::none);
  EXPECT_EQ(rope_of(config, 1).factor, 8);
}

}  // namespace
}  // namespace inlay::exec::test
