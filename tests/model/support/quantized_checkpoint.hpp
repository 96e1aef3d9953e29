// A checkpoint of Hugging Face whose linears are codes, and what the model has of them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include <inlay/model/linear_weight.hpp>
#include <inlay/model/load.hpp>

#include "tests/model/support/checkpoint.hpp"
#include "tests/model/support/tiny_model.hpp"

namespace inlay::exec::test {

using Matrix = std::vector<std::vector<float>>;  // [n][k]
using Codes = std::vector<std::vector<int>>;

// One layer whose linears are added by hand.
struct Checkpoint {
  Json config = llama_config();
  Shard shard;
  std::mt19937 rng{7};

  Checkpoint() {
    config["hidden_size"] = 32, config["intermediate_size"] = 64, config["num_attention_heads"] = 4;
    config["num_key_value_heads"] = 2;
    const std::string l = "model.layers.0.";
    shard.add("model.embed_tokens.weight", {10, 32}, 1), shard.add("model.norm.weight", {32}, 2);
    shard.add(l + "input_layernorm.weight", {32}), shard.add(l + "post_attention_layernorm.weight", {32});
  }
  void raw(const std::string& name, const char* dtype, const std::vector<index>& shape, const std::string& bytes) {
    const std::size_t begin = shard.data.size();
    shard.data += bytes;
    shard.header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, shard.data.size()}}};
  }
  void words(const std::string& name, const std::vector<index>& shape, const std::vector<std::uint32_t>& list) {
    raw(name, "I32", shape, {reinterpret_cast<const char*>(list.data()), list.size() * 4});
  }
  void floats(const std::string& name, const std::vector<index>& shape, const std::vector<float>& list) {
    raw(name, "F32", shape, {reinterpret_cast<const char*>(list.data()), list.size() * 4});
  }
  int drawn(int below) { return static_cast<int>(rng() % static_cast<unsigned>(below)); }
  // Exact in any float type: products of codes and these are.
  float drawn_scale() { return std::ldexp(static_cast<float>(1 + drawn(7)), -6); }
  Codes drawn_codes(index rows, index columns, int below) {
    Codes all(static_cast<std::size_t>(rows), std::vector<int>(static_cast<std::size_t>(columns)));
    for (auto& row : all)
      for (int& one : row) one = drawn(below);
    return all;
  }
  void write(const TemporaryDirectory& d) const {
    write_text(d / "config.json", config.dump());
    write_text(d / "model.safetensors", shard.bytes());
  }
};

constexpr struct {
  const char *theirs, *ours;
  index n, k;
} linears[] = {{"self_attn.q_proj", "attn_q", 32, 32}, {"self_attn.k_proj", "attn_k", 16, 32},
               {"self_attn.v_proj", "attn_v", 16, 32}, {"self_attn.o_proj", "attn_output", 32, 32},
               {"mlp.gate_proj", "ffn_gate", 64, 32},  {"mlp.up_proj", "ffn_up", 64, 32},
               {"mlp.down_proj", "ffn_down", 32, 64}};

// What the model has of a linear: through the packed form that is computed with, and through rows as convert reads
// them.
inline void expect_weight(const ModelFile& file, const std::string& name, const Matrix& expected) {
  const WeightTensor* tensor = file.find("blk.0." + name + ".weight");
  ASSERT_NE(tensor, nullptr) << name;
  auto packed = pack_weight(serial(), file, *tensor);
  ASSERT_TRUE(packed) << packed.error().message();
  const auto* codes = std::get_if<PackedW4>(&packed->form());
  std::vector<float> row, unpacked(expected[0].size());
  for (std::size_t r = 0; r < expected.size(); ++r) {
    ASSERT_TRUE(file.read_row(*tensor, static_cast<index>(r), row)) << name;
    ASSERT_EQ(row, expected[r]) << name << ", row " << r;
    if (codes == nullptr) continue;
    codes->unpack(static_cast<index>(r), unpacked.data());
    ASSERT_EQ(unpacked, expected[r]) << name << ", row " << r;
  }
}

// All of them, from one on.
inline void expect_linears(const Expected<ModelFile>& file, const std::vector<Matrix>& expected,
                           std::size_t first = 0) {
  ASSERT_TRUE(file) << file.error().message();
  for (std::size_t i = first; i < std::size(linears); ++i)
    ASSERT_NO_FATAL_FAILURE(expect_weight(*file, linears[i].ours, expected[i]));
}

}  // namespace inlay::exec::test
