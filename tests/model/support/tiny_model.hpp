// A complete Llama of a few kilobytes, made in memory, for tests that break it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <inlay/model/convert.hpp>
#include <inlay/model/model_tensors.hpp>

#include "tests/support/files.hpp"
#include "tests/text/support/vocabularies.hpp"

namespace inlay::exec::test {

// Owns what a ModelFile points to.
struct TinyModel {
  std::vector<std::vector<float>> values;
  ModelFile file;

  void add(std::vector<WeightTensor>& tensors, WeightTensor t) {
    std::mt19937 random(static_cast<unsigned>(values.size()) + 1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    values.emplace_back(static_cast<std::size_t>(t.size()));
    for (float& x : values.back()) x = uniform(random);
    t.data = reinterpret_cast<const std::byte*>(values.back().data());
    t.bytes = t.size() * 4;
    tensors.push_back(std::move(t));
  }

  // The values of one tensor.
  std::vector<float>& of(const std::string& name) {
    const auto* data = reinterpret_cast<const float*>(file.find(name)->data);
    return *std::find_if(values.begin(), values.end(), [&](const auto& each) { return each.data() == data; });
  }
};

inline ModelConfig tiny_config(const std::string& arch = "llama") {
  ModelConfig c;
  c.architecture = arch;
  c.layers = 1, c.dim = 32, c.heads = 4, c.kv_heads = 2, c.head_dim = 8, c.hidden = 32, c.vocab = 264, c.context = 64;
  c.ropes[0].dim = 8;
  c.ropes[0].pairing = arch == "llama" ? RopeConfig::Pairing::interleaved : RopeConfig::Pairing::half;
  c.qkv_bias = arch == "qwen2", c.qk_norm = arch == "qwen3" ? QkNorm::head : QkNorm::none;
  return c;
}

// `extra`: tensors that the configuration has no place for.
inline TinyModel tiny_model(const ModelConfig& config, std::vector<WeightTensor> extra = {}) {
  TinyModel m;
  m.file.path = "tiny";
  m.file.config = config;
  m.file.tokenizer = tiny_vocabulary();
  std::vector<WeightTensor> tensors;
  const Status made = for_each_tensor(config, [&](const TensorFacts& facts) {
    if (facts.required) m.add(tensors, {.name = facts.name, .rank = facts.rank, .extents = facts.extents});
    return Status{};
  });
  EXPECT_TRUE(made) << made.message();
  for (WeightTensor& each : extra) m.add(tensors, std::move(each));
  std::vector<std::shared_ptr<const Mapping>> memory;
  for (const auto& v : m.values) memory.push_back(Mapping::borrow(std::as_bytes(std::span(v))));
  m.file.set_tensors(std::move(tensors), std::move(memory));
  return m;
}

inline TinyModel tiny_model(const std::string& arch = "llama") { return tiny_model(tiny_config(arch)); }

}  // namespace inlay::exec::test
