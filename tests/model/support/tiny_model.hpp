// A complete Llama of a few kilobytes, made in memory, for tests that break it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <inlay/model/convert.hpp>

#include "tests/support/files.hpp"
#include "tests/text/support/vocabularies.hpp"

namespace inlay::exec::test {

// Owns what a ModelFile points to.
struct TinyModel {
  std::vector<std::vector<float>> values;
  ModelFile file;

  void add(std::vector<WeightTensor>& tensors, const std::string& name, std::initializer_list<index> extents) {
    WeightTensor t{.name = name, .rank = static_cast<int>(extents.size())};
    std::copy(extents.begin(), extents.end(), t.extents.begin());
    std::mt19937 random(static_cast<unsigned>(values.size()) + 1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    values.emplace_back(static_cast<std::size_t>(t.size()));
    for (float& x : values.back()) x = uniform(random);
    t.data = reinterpret_cast<const std::byte*>(values.back().data());
    t.bytes = t.size() * 4;
    tensors.push_back(t);
  }
};

inline TinyModel tiny_model(const std::string& arch = "llama") {
  TinyModel m;
  m.values.reserve(64);
  ModelConfig& c = m.file.config;
  c.architecture = arch;
  c.layers = 1, c.dim = 32, c.heads = 4, c.kv_heads = 2, c.head_dim = 8, c.hidden = 32, c.vocab = 264, c.context = 64;
  c.rope.dim = 8;
  c.rope.pairing = arch == "llama" ? RopeConfig::Pairing::interleaved : RopeConfig::Pairing::half;
  c.qkv_bias = arch == "qwen2", c.qk_norm = arch == "qwen3";
  std::vector<WeightTensor> t;
  m.add(t, "token_embd.weight", {264, 32}), m.add(t, "output_norm.weight", {32}), m.add(t, "output.weight", {264, 32});
  m.add(t, "blk.0.attn_norm.weight", {32}), m.add(t, "blk.0.ffn_norm.weight", {32});
  m.add(t, "blk.0.attn_q.weight", {32, 32}), m.add(t, "blk.0.attn_k.weight", {16, 32}),
      m.add(t, "blk.0.attn_v.weight", {16, 32});
  m.add(t, "blk.0.attn_output.weight", {32, 32}), m.add(t, "blk.0.ffn_gate.weight", {32, 32});
  m.add(t, "blk.0.ffn_up.weight", {32, 32}), m.add(t, "blk.0.ffn_down.weight", {32, 32});
  if (c.qkv_bias)
    m.add(t, "blk.0.attn_q.bias", {32}), m.add(t, "blk.0.attn_k.bias", {16}), m.add(t, "blk.0.attn_v.bias", {16});
  if (c.qk_norm) m.add(t, "blk.0.attn_q_norm.weight", {8}), m.add(t, "blk.0.attn_k_norm.weight", {8});
  std::vector<std::shared_ptr<const Mapping>> memory;
  for (const auto& v : m.values) memory.push_back(Mapping::borrow(std::as_bytes(std::span(v))));
  m.file.path = "tiny";
  m.file.set_tensors(std::move(t), std::move(memory));
  m.file.tokenizer = tiny_vocabulary();
  return m;
}

}  // namespace inlay::exec::test
