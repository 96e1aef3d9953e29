// The numbers of a layer's xIELU in files: tensors of one element in checkpoints, keys in GGUF.
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <inlay/model/load.hpp>

#include "executor/model/hf/xielu.hpp"
#include "tests/model/support/hf_config.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/model/support/unchecked_gguf.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::expect_refused;

ModelConfig apertus(index layers) {
  Json json = config_of("apertus", layers);
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 1024}};
  json["hidden_act"] = "xielu";
  return read(json);
}

WeightTensor one(const float& value) {
  return {.rank = 1, .extents = {1}, .data = reinterpret_cast<const std::byte*>(&value), .bytes = 4};
}
std::string name_of(index layer, const std::string& part) {
  return "model.layers." + std::to_string(layer) + ".mlp.act_fn." + part;
}

TEST(xielu, tensors_of_each_layer) {
  ModelConfig config = apertus(2);
  const float values[] = {0.25f, -0.5f, 0.75f, 1.5f, 0.125f, -0.25f};
  HfXielu numbers;
  EXPECT_TRUE(*numbers.take("m", name_of(0, "alpha_p"), one(values[0])));
  EXPECT_TRUE(*numbers.take("m", name_of(0, "alpha_n"), one(values[1])));
  EXPECT_TRUE(*numbers.take("m", name_of(1, "alpha_n"), one(values[3])));
  EXPECT_FALSE(*numbers.take("m", name_of(0, "gamma"), one(values[0])));
  EXPECT_FALSE(*numbers.take("m", "model.layers.0.mlp.up_proj.weight", one(values[0])));
  const Status missing = numbers.apply("m", config);
  expect_refused(missing, StatusCode::not_found, {"model.layers.1.mlp.act_fn.alpha_p", "missing"});
  EXPECT_TRUE(*numbers.take("m", name_of(1, "alpha_p"), one(values[2])));
  EXPECT_TRUE(*numbers.take("m", name_of(1, "beta"), one(values[4])));
  EXPECT_TRUE(*numbers.take("m", name_of(1, "eps"), one(values[5])));
  ASSERT_TRUE(numbers.apply("m", config));
  EXPECT_EQ(config.layer(0).xielu, (Xielu{.alpha_p = 0.25, .alpha_n = -0.5, .beta = 0.5, .eps = -1e-6}));
  EXPECT_EQ(config.layer(1).xielu, (Xielu{.alpha_p = 0.75, .alpha_n = 1.5, .beta = 0.125, .eps = -0.25}));
}

TEST(xielu, tensors_that_do_not_fit_are_refused) {
  const float value = 1;
  HfXielu numbers;
  ASSERT_TRUE(*numbers.take("m", name_of(3, "alpha_p"), one(value)));
  const auto twice = numbers.take("m", name_of(3, "alpha_p"), one(value));
  ASSERT_FALSE(twice.has_value());
  expect_refused(twice.error(), StatusCode::corrupt_data, {"two tensors", "alpha_p"});
  WeightTensor two = one(value);
  two.extents = {2};
  const auto wide = numbers.take("m", name_of(3, "beta"), two);
  ASSERT_FALSE(wide.has_value());
  expect_refused(wide.error(), StatusCode::corrupt_data, {"beta", "[2]", "one element"});
  ModelConfig other = read(config_of("llama"));
  expect_refused(numbers.apply("m", other), StatusCode::unsupported, {"xielu", "another"});
  Json json = config_of("apertus");
  refuse(json, StatusCode::not_found, {"rope_parameters"});
}

// An apertus of two layers, written with keys of its own.
ModelConfig in_gguf() {
  ModelConfig c = tiny_config("apertus");
  c.layers = 2, c.qk_norm = QkNorm::head, c.activation = Activation::xielu, c.gated = false;
  LayerConfig layer{.hidden = c.hidden};
  layer.xielu = {.alpha_p = 0.25, .alpha_n = -0.5, .beta = 0.5, .eps = -0.125};
  std::vector<LayerConfig> layers(2, layer);
  layers[1].xielu.alpha_p = 2;
  c.set_layers(layers);
  return c;
}

TEST(xielu, keys_of_each_layer) {
  const TemporaryDirectory d;
  for (const bool alike : {false, true}) {
    ModelConfig config = in_gguf();
    std::vector<LayerConfig> layers = config.per_layer;
    if (alike) layers[1] = layers[0];
    config.set_layers(layers);
    ASSERT_EQ(config.per_layer.size(), 2u);
    const auto report = write_gguf(tiny_model(config).file, d / "m.gguf");
    ASSERT_TRUE(report) << report.error().message();
    const auto file = load_model(d / "m.gguf");
    ASSERT_TRUE(file) << file.error().message();
    for (index i = 0; i < 2; ++i) EXPECT_EQ(file->config.layer(i).xielu, config.layer(i).xielu) << i;
  }
}

TEST(xielu, numbers_that_no_operator_takes_are_refused) {
  const TemporaryDirectory d;
  ModelConfig config = in_gguf();
  std::vector<LayerConfig> layers = config.per_layer;
  layers[1].xielu.eps = 0.5;
  config.set_layers(layers);
  write_unchecked(tiny_model(config).file, d / "m.gguf");
  const auto above = load_model(d / "m.gguf");
  ASSERT_FALSE(above.has_value());
  expect_refused(above.error(), StatusCode::corrupt_data, {"eps", "layer 1", "0.5", "0 or less"});
}

}  // namespace
}  // namespace inlay::exec::test
