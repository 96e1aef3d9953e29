// Experts as gpt-oss stores them: rows of gate and up by turns, in blocks of MXFP4.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/model/support/hf_config.hpp"
#include "tests/model/support/mixture_checkpoint.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::expect_refused;

Json interleaved_config() {
  Json json = config_of("gpt_oss");
  json["num_local_experts"] = experts, json["num_experts_per_tok"] = 2, json["intermediate_size"] = hidden;
  json["head_dim"] = 8, json["vocab_size"] = 10, json["tie_word_embeddings"] = true;
  json["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}, {"truncate", false}};
  json["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}};
  return json;
}

// All but the experts' matrices.
Shard around_interleaved() {
  Shard s;
  const std::string l = layer;
  s.add("model.embed_tokens.weight", {10, dim}), s.add("model.norm.weight", {dim});
  s.add(l + "input_layernorm.weight", {dim}), s.add(l + "post_attention_layernorm.weight", {dim});
  for (const auto& [part, rows] : {std::pair{"q", 32}, {"k", 16}, {"v", 16}}) {
    s.add(l + "self_attn." + part + "_proj.weight", {rows, dim});
    s.add(l + "self_attn." + part + "_proj.bias", {rows});
  }
  s.add(l + "self_attn.o_proj.weight", {dim, 32}), s.add(l + "self_attn.o_proj.bias", {dim});
  s.add(l + "self_attn.sinks", {4}, 5);
  s.add(l + "mlp.router.weight", {experts, dim}), s.add(l + "mlp.router.bias", {experts}, 6);
  s.add(l + "mlp.experts.gate_up_proj_bias", {experts, 2 * hidden}),
      s.add(l + "mlp.experts.down_proj_bias", {experts, dim});
  return s;
}

void add_bytes(Shard& s, const std::string& name, const std::vector<index>& shape, std::uint32_t seed) {
  std::size_t size = 1;
  for (const index extent : shape) size *= static_cast<std::size_t>(extent);
  const std::size_t begin = s.data.size();
  // Exponents stay near 127, as scales have them.
  for (std::size_t i = 0; i < size; ++i) {
    seed = seed * 1664525 + 1013904223;
    s.data += static_cast<char>(shape.size() == 3 ? 120 + seed % 12 : seed >> 24);
  }
  s.header[layer + ("mlp.experts." + name)] = {
      {"dtype", "U8"}, {"shape", shape}, {"data_offsets", {begin, s.data.size()}}};
}
Shard with_blocks() {
  Shard s = around_interleaved();
  add_bytes(s, "gate_up_proj_blocks", {experts, 2 * hidden, dim / 32, 16}, 1);
  add_bytes(s, "gate_up_proj_scales", {experts, 2 * hidden, dim / 32}, 2);
  add_bytes(s, "down_proj_blocks", {experts, dim, hidden / 32, 16}, 3);
  add_bytes(s, "down_proj_scales", {experts, dim, hidden / 32}, 4);
  return s;
}

// Element i of a row, by the format's definition.
double of_blocks(const Shard& s, const std::string& stem, index row, index columns, index i) {
  constexpr double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const auto byte = [&](const std::string& kind, index at) {
    const auto begin = s.header[layer + ("mlp.experts." + stem + kind)]["data_offsets"][0].get<std::size_t>();
    return static_cast<unsigned char>(s.data[begin + static_cast<std::size_t>(at)]);
  };
  const int code = byte("_blocks", (row * columns + i) / 2) >> (i % 2 * 4) & 15;
  const double size = std::ldexp(values[code & 7], byte("_scales", (row * columns + i) / 32) - 127);
  return code & 8 ? -size : size;
}

TEST(interleaved_experts, gate_and_up_by_turns_in_blocks) {
  const Shard s = with_blocks();
  const TemporaryDirectory d;
  const auto file = load_checkpoint(d, s, interleaved_config());
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_TRUE(file->config.sinks && file->config.experts.biases);
  EXPECT_FALSE(file->config.ropes[0].truncate);
  std::vector<float> row;
  const auto compare = [&](const char* name, const std::string& stem, index rows, index columns, index first,
                           index turns) {
    const WeightTensor* tensor = file->find(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->type, GgmlType::MXFP4);
    for (index r = 0; r < experts * rows; ++r) {
      ASSERT_TRUE(file->read_row(*tensor, r, row));
      for (index i = 0; i < columns; ++i)
        ASSERT_EQ(static_cast<double>(row[static_cast<std::size_t>(i)]),
                  of_blocks(s, stem, r * turns + first, columns, i))
            << name << ", row " << r << ", " << i;
    }
  };
  compare("blk.0.ffn_gate_exps.weight", "gate_up_proj", hidden, dim, 0, 2);
  compare("blk.0.ffn_up_exps.weight", "gate_up_proj", hidden, dim, 1, 2);
  compare("blk.0.ffn_down_exps.weight", "down_proj", dim, hidden, 0, 1);
  for (const auto& [name, first] : {std::pair{"blk.0.ffn_gate_exps.bias", 0.0f}, {"blk.0.ffn_up_exps.bias", 1.0f}}) {
    ASSERT_TRUE(file->read_row(*file->find(name), 2, row));
    for (std::size_t i = 0; i < row.size(); ++i)
      ASSERT_EQ(row[i], first + static_cast<float>(2 * 2 * hidden + 2 * static_cast<index>(i))) << name;
  }
}

// What tools that quantize them leave: a linear of each expert, with its bias.
TEST(interleaved_experts, of_each_expert) {
  Shard s = around_interleaved();
  const std::string room = layer + std::string("mlp.experts.");
  s.header.erase(room + "gate_up_proj_bias"), s.header.erase(room + "down_proj_bias");
  for (index e = 0; e < experts; ++e)
    for (const auto& [part, first] : {std::pair{"gate", 100.0f}, {"up", 200.0f}, {"down", 300.0f}}) {
      const std::string stem = room + std::to_string(e) + "." + part + "_proj.";
      s.add(stem + "weight", {hidden, dim}, first + static_cast<float>(e)),
          s.add(stem + "bias", {dim}, first - static_cast<float>(e));
    }
  Json json = interleaved_config();
  json.erase("quantization_config");
  const TemporaryDirectory d;
  const auto file = load_checkpoint(d, s, json);
  ASSERT_TRUE(file) << file.error().message();
  std::vector<float> row;
  for (const auto& [name, first] :
       {std::pair{"blk.0.ffn_gate_exps.bias", 100.0f}, {"blk.0.ffn_down_exps.bias", 300.0f}})
    for (index e = 0; e < experts; ++e) {
      ASSERT_TRUE(file->read_row(*file->find(name), e, row));
      EXPECT_EQ(row[0], first - static_cast<float>(e)) << name << " " << e;
    }
  Shard both = with_blocks();  // of each expert and of all
  both.add(room + "0.up_proj.weight", {hidden, dim}), both.add(room + "1.up_proj.weight", {hidden, dim});
  both.add(room + "2.up_proj.weight", {hidden, dim});
  const auto twice = load_checkpoint(d, both, interleaved_config());
  ASSERT_FALSE(twice.has_value());
  expect_refused(twice.error(), StatusCode::corrupt_data, {"two tensors", "blk.0.ffn_up_exps.weight"});
}

TEST(interleaved_experts, gate_and_up_by_turns_that_do_not_fit_are_refused) {
  const auto wrong = [](StatusCode code, const std::function<void(Shard&, Json&)>& change,
                        std::initializer_list<const char*> words) {
    Shard s = with_blocks();
    Json json = interleaved_config();
    change(s, json);
    const TemporaryDirectory d;
    const auto file = load_checkpoint(d, s, json);
    ASSERT_FALSE(file.has_value());
    expect_refused(file.error(), code, words);
  };
  const std::string room = layer + std::string("mlp.experts.");
  wrong(StatusCode::not_found, [&](Shard& s, Json&) { s.header.erase(room + "down_proj_scales"); },
        {"down_proj", "missing", "_scales"});
  wrong(StatusCode::corrupt_data,
        [&](Shard& s, Json&) {
          s.header[room + "down_proj_blocks"]["shape"] = {experts, dim, 2, 8};
        },
        {"down_proj_blocks", "[3, 32, 2, 8]", "[3, 32, 1, 16]"});
  wrong(StatusCode::corrupt_data,
        [&](Shard& s, Json&) {
          s.add("language_model." + room + "down_proj_bias", {experts, dim});
        },
        {"model.safetensors", "two tensors", "down_proj_bias"});
  wrong(StatusCode::corrupt_data, [&](Shard&, Json& json) { json["num_local_experts"] = 2; }, {"[3, ", "[2, "});
  wrong(StatusCode::not_found, [&](Shard& s, Json&) { s.header.erase(room + "down_proj_bias"); },
        {"blk.0.ffn_down_exps.bias", "missing"});
  wrong(StatusCode::unsupported, [&](Shard&, Json& json) { json["swiglu_limit"] = 5.0; }, {"swiglu_limit", "7"});
  wrong(StatusCode::unsupported, [&](Shard&, Json& json) { json["hidden_act"] = "mish"; }, {"mish"});
}

}  // namespace
}  // namespace inlay::exec::test
