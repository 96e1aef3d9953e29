// A config.json of few keys, to change and to read.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "executor/model/hf/config.hpp"
#include "tests/model/support/checkpoint.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {

inline Json config_of(const std::string& architecture, index layers = 1) {
  return {{"model_type", architecture},  {"hidden_size", 32},
          {"num_hidden_layers", layers}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2},    {"intermediate_size", 64},
          {"vocab_size", 100},           {"max_position_embeddings", 4096}};
}

inline Expected<ModelConfig> config_from(const Json& json) {
  const auto document = parse_json(json.dump(), "config.json");
  EXPECT_TRUE(document) << document.error().message();
  return hf_config(document->root(), "config.json");
}

inline ModelConfig read(const Json& json) {
  auto config = config_from(json);
  EXPECT_TRUE(config.has_value()) << config.error().message();
  return config ? *config : ModelConfig{};
}

inline void refuse(const Json& json, StatusCode code, std::initializer_list<const char*> words) {
  const auto config = config_from(json);
  ASSERT_FALSE(config.has_value()) << json.dump();
  inlay::test::expect_refused(config.error(), code, words);
}

}  // namespace inlay::exec::test
