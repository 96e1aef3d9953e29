// A session over a small model with random weights, and what tests ask of its logits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/eager.hpp>
#include <inlay/exec/generate.hpp>
#include <inlay/model/random_weights.hpp>

namespace inlay::exec::test {

inline ModelConfig tiny() {
  ModelConfig config;
  config.architecture = "llama";
  config.layers = 2;
  config.dim = 48;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 12;
  config.hidden = 80;
  config.vocab = 101;
  config.context = 96;
  config.ropes[0].dim = 12;
  return config;
}

// Attention that sees nine tokens, behind a layer that sees all.
inline ModelConfig windowed() {
  ModelConfig config = tiny();
  config.set_layers({{.hidden = 80}, {.hidden = 80, .window = 9}});
  return config;
}

// Experts in the second layer, and one that all tokens have; widths that are no multiple of a panel.
inline ModelConfig tiny_mixture() {
  ModelConfig config = tiny();
  config.experts = {
      .count = 7, .top_k = 3, .hidden = 37, .shared_hidden = 24, .shared_gate = true, .renormalize = true};
  config.set_layers({{.hidden = 80}, {.hidden = 80, .sparse = true}});
  return config;
}

// Latent attention: q_rank and head widths are no multiples of a panel, or all of them are.
inline ModelConfig tiny_latent(index q_rank, bool panels = false) {
  ModelConfig config = tiny();
  config.architecture = "deepseek2";
  config.kv_heads = config.heads;
  config.head_dim = panels ? 32 : 20;
  config.latent = {
      .kv_rank = panels ? 32 : 14, .q_rank = q_rank, .rope_dim = panels ? 16 : 6, .value_dim = panels ? 16 : 9};
  config.ropes[0] = {.pairing = RopeConfig::Pairing::interleaved, .dim = config.latent.rope_dim};
  return config;
}

inline std::vector<Token> tokens(index count, index vocab) {
  std::vector<Token> list;
  for (index i = 0; i < count; ++i) list.push_back(static_cast<Token>((i * 37 + 11) % vocab));
  return list;
}

template <class Run>
Session session(const ModelConfig& config, const std::string& type, Run run, Session::Options options) {
  auto weights = random_weights(config, type, serial(), 7);
  EXPECT_TRUE(weights.has_value());
  options.context = config.context;
  auto made = Session::make(config, std::move(*weights), std::move(run), options);
  EXPECT_TRUE(made.has_value()) << made.error().message();
  return std::move(*made);
}

// The logits of what was just appended or decoded.
inline std::vector<float> all(Session& session, const Status& passed) {
  EXPECT_TRUE(passed.ok()) << passed.message();
  const auto logits = session.logits();
  EXPECT_TRUE(logits.has_value()) << logits.error().message();
  return {logits->as<float>(), logits->as<float>() + logits->size()};
}

inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::fmax(largest, std::fabs(a[i] - b[i]));
  return largest;
}

inline double magnitude(const std::vector<float>& a) {
  double largest = 0;
  for (float v : a) largest = std::fmax(largest, std::fabs(v));
  return largest;
}

}  // namespace inlay::exec::test
