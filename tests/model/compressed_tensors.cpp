// Checkpoints of compressed-tensors: every number that a file's codes stand for.
#include <algorithm>
#include <cmath>
#include <functional>

#include <inlay/core/element.hpp>
#include <inlay/model/checkpoint_codes.hpp>

#include "tests/model/support/quantized_checkpoint.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {
namespace {

Json settings(const std::string& format, const Json& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"kv_cache_scheme", nullptr},
          {"ignore", {"lm_head"}},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", nullptr}, {"format", format}}}}}};
}

// What pack_to_int32 does: codes above their numbers by half of the range, the first in the lowest bits.
std::vector<std::uint32_t> packed(const std::vector<int>& row, index bits) {
  const auto per_word = static_cast<std::size_t>(32 / bits);
  std::vector<std::uint32_t> words((row.size() + per_word - 1) / per_word);
  for (std::size_t i = 0; i < row.size(); ++i)
    words[i / per_word] |= static_cast<std::uint32_t>(row[i] + (1 << (bits - 1)))
                           << (i % per_word * static_cast<std::size_t>(bits));
  return words;
}

struct Packed {
  index bits = 4, group = 16;  // 0: channels
  bool symmetric = true, act_order = false;
  bool names_strategy = true;
};

Matrix add_packed(Checkpoint& c, const std::string& stem, index n, index k, const Packed& form) {
  const index group = form.group > 0 ? form.group : k, groups = k / group;
  const int half = 1 << (form.bits - 1);
  Codes q = c.drawn_codes(n, k, 2 * half), zero = c.drawn_codes(groups, n, 2 * half);  // zero: [groups][n]
  std::vector<float> scales;
  for (index i = 0; i < n * groups; ++i) scales.push_back(c.drawn_scale());
  std::vector<std::uint32_t> g_idx, words, zeros(static_cast<std::size_t>((n * form.bits + 31) / 32 * groups));
  for (index i = 0; i < k; ++i) g_idx.push_back(static_cast<std::uint32_t>(i / group));
  if (form.act_order) std::shuffle(g_idx.begin(), g_idx.end(), c.rng);
  for (auto& row : q) {
    for (int& one : row) one -= half;
    const auto more = packed(row, form.bits);
    words.insert(words.end(), more.begin(), more.end());
  }
  // Zero points are packed along the channels: [words, groups].
  for (index g = 0; g < groups; ++g) {
    for (int& one : zero[g]) one = form.symmetric ? 0 : one - half;
    const auto column = packed(zero[g], form.bits);
    for (std::size_t i = 0; i < column.size(); ++i)
      zeros[i * static_cast<std::size_t>(groups) + static_cast<std::size_t>(g)] = column[i];
  }
  c.words(stem + ".weight_packed", {n, k * form.bits / 32}, words);
  c.floats(stem + ".weight_scale", {n, groups}, scales);
  if (!form.symmetric) c.words(stem + ".weight_zero_point", {(n * form.bits + 31) / 32, groups}, zeros);
  if (form.act_order) c.words(stem + ".weight_g_idx", {k}, g_idx);
  const std::int64_t shape[] = {n, k};
  c.raw(stem + ".weight_shape", "I64", {2}, {reinterpret_cast<const char*>(shape), sizeof(shape)});
  Matrix w(static_cast<std::size_t>(n), std::vector<float>(static_cast<std::size_t>(k)));
  for (index o = 0; o < n; ++o)
    for (index i = 0; i < k; ++i) {
      const auto g = g_idx[static_cast<std::size_t>(i)];
      w[o][i] = static_cast<float>(q[o][i] - zero[g][o]) * scales[static_cast<std::size_t>(o * groups + g)];
    }
  return w;
}

Json weights_of(const Packed& form) {
  Json weights{{"num_bits", form.bits},
               {"type", "int"},
               {"symmetric", form.symmetric},
               {"group_size", nullptr},
               {"strategy", form.group > 0 ? "group" : "channel"},
               {"actorder", form.act_order ? Json("group") : Json()}};
  if (form.group > 0) weights["group_size"] = form.group;
  if (!form.names_strategy) weights["strategy"] = nullptr, weights["group_size"] = form.group > 0 ? form.group : -1;
  return weights;
}

TEST(compressed_tensors, packed_codes) {
  for (const Packed& form : {Packed{}, Packed{.symmetric = false}, Packed{.act_order = true}, Packed{.group = 0},
                             Packed{.group = 0, .symmetric = false}, Packed{.bits = 8}, Packed{.bits = 8, .group = 0},
                             Packed{.bits = 8, .group = 32, .symmetric = false, .act_order = true},
                             Packed{.names_strategy = false}, Packed{.group = 0, .names_strategy = false}}) {
    SCOPED_TRACE(weights_of(form).dump());
    Checkpoint c;
    c.config["quantization_config"] = settings("pack-quantized", weights_of(form));
    std::vector<Matrix> expected;
    for (const auto& l : linears)
      expected.push_back(add_packed(c, "model.layers.0." + std::string(l.theirs), l.n, l.k, form));
    const TemporaryDirectory d;
    c.write(d);
    const auto file = load_model(d / "");
    ASSERT_NO_FATAL_FAILURE(expect_linears(file, expected));
    EXPECT_EQ(file->find("blk.0.attn_q.weight")->codes->format(),
              "compressed-tensors, " + std::to_string(form.bits) + " bits");
  }
}

// Phi-3's fused matrices are cut by channels.
TEST(compressed_tensors, fused_linears_are_cut) {
  for (const bool symmetric : {true, false}) {
    Checkpoint c;
    const Packed form{.symmetric = symmetric};
    c.config["model_type"] = "phi3", c.config["num_key_value_heads"] = 2, c.config["pad_token_id"] = nullptr;
    c.config["quantization_config"] = settings("pack-quantized", weights_of(form));
    const Matrix qkv = add_packed(c, "model.layers.0.self_attn.qkv_proj", 64, 32, form);
    add_packed(c, "model.layers.0.self_attn.o_proj", 32, 32, form);
    const Matrix gate_up = add_packed(c, "model.layers.0.mlp.gate_up_proj", 128, 32, form);
    add_packed(c, "model.layers.0.mlp.down_proj", 32, 64, form);
    const TemporaryDirectory d;
    c.write(d);
    const auto file = load_model(d / "");
    ASSERT_TRUE(file) << file.error().message();
    const auto rows = [](const Matrix& m, std::ptrdiff_t first, std::ptrdiff_t count) {
      return Matrix(m.begin() + first, m.begin() + first + count);
    };
    expect_weight(*file, "attn_q", rows(qkv, 0, 32));
    expect_weight(*file, "attn_k", rows(qkv, 32, 16));
    expect_weight(*file, "attn_v", rows(qkv, 48, 16));
    expect_weight(*file, "ffn_gate", rows(gate_up, 0, 64));
    expect_weight(*file, "ffn_up", rows(gate_up, 64, 64));
  }
}

TEST(compressed_tensors, bytes) {
  for (const auto& [format, group] : {std::pair<const char*, index>{"int-quantized", 0}, {"naive-quantized", 16}}) {
    Checkpoint c;
    Json weights{{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "channel"}, {"dynamic", false}};
    if (group > 0) weights["strategy"] = "group", weights["group_size"] = group;
    c.config["quantization_config"] = settings(format, weights);
    std::vector<Matrix> expected;
    for (const auto& l : linears) {
      const std::string stem = "model.layers.0." + std::string(l.theirs);
      std::string bytes;
      std::vector<float> scales;
      Matrix w(static_cast<std::size_t>(l.n), std::vector<float>(static_cast<std::size_t>(l.k)));
      for (auto& row : w)
        for (index i = 0; i < l.k; ++i) {
          if (i % (group > 0 ? group : l.k) == 0) scales.push_back(c.drawn_scale());
          const int code = c.drawn(256) - 128;
          bytes.push_back(static_cast<char>(code));
          row[static_cast<std::size_t>(i)] = static_cast<float>(code) * scales.back();
        }
      c.raw(stem + ".weight", "I8", {l.n, l.k}, bytes);
      c.floats(stem + ".weight_scale", {l.n, static_cast<index>(scales.size()) / l.n}, scales);
      expected.push_back(std::move(w));
    }
    const TemporaryDirectory d;
    c.write(d);
    ASSERT_NO_FATAL_FAILURE(expect_linears(load_model(d / ""), expected));
  }
}

// The numbers themselves are the business of quantized_checkpoints: here, which scale is whose.
TEST(compressed_tensors, fp8_of_channels_tensors_and_blocks) {
  struct Form {
    const char* strategy;
    index rows, columns;  // of a scale; 0: all
  };
  for (const Form form : {Form{"channel", 1, 0}, Form{"tensor", 0, 0}, Form{"block", 16, 12}}) {
    SCOPED_TRACE(form.strategy);
    Checkpoint c;
    Json weights{{"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"strategy", form.strategy}};
    if (form.columns > 0) weights["block_structure"] = {form.rows, form.columns};
    c.config["quantization_config"] = settings("float-quantized", weights);
    std::vector<Matrix> expected;
    for (const auto& l : linears) {
      const std::string stem = "model.layers.0." + std::string(l.theirs);
      const index rows = form.rows > 0 ? form.rows : l.n, columns = form.columns > 0 ? form.columns : l.k;
      const index down = (l.n + rows - 1) / rows, across = (l.k + columns - 1) / columns;
      std::vector<float> scales(static_cast<std::size_t>(down * across));
      for (float& s : scales) s = std::ldexp(1.0f, -c.drawn(8));
      std::string bytes;
      Matrix w(static_cast<std::size_t>(l.n), std::vector<float>(static_cast<std::size_t>(l.k)));
      for (index o = 0; o < l.n; ++o)
        for (index i = 0; i < l.k; ++i) {
          const int exponent = 1 + c.drawn(15), sign = c.drawn(2);
          bytes.push_back(static_cast<char>(exponent << 3 | sign << 7));
          w[o][i] = std::ldexp(sign != 0 ? -1.0f : 1.0f, exponent - 7) *
                    scales[static_cast<std::size_t>(o / rows * across + i / columns)];
        }
      c.raw(stem + ".weight", "F8_E4M3", {l.n, l.k}, bytes);
      if (down * across == 1)
        c.floats(stem + ".weight_scale", {1}, scales);
      else
        c.floats(stem + ".weight_scale", {down, across}, scales);
      c.floats(stem + ".input_scale", {1}, {3});
      expected.push_back(std::move(w));
    }
    const TemporaryDirectory d;
    c.write(d);
    ASSERT_NO_FATAL_FAILURE(expect_linears(load_model(d / ""), expected));
  }
}

TEST(compressed_tensors, what_does_not_fit_is_refused_by_name) {
  const auto refused = [](const std::function<void(Checkpoint&)>& change, StatusCode code,
                          std::initializer_list<const char*> words) {
    Checkpoint c;
    c.config["quantization_config"] = settings("pack-quantized", weights_of({.symmetric = false}));
    for (const auto& l : linears)
      add_packed(c, "model.layers.0." + std::string(l.theirs), l.n, l.k, {.symmetric = false, .act_order = true});
    change(c);
    const TemporaryDirectory d;
    c.write(d);
    const auto file = load_model(d / "");
    ASSERT_FALSE(file);
    inlay::test::expect_refused(file.error(), code, words);
  };
  const auto setting = [&](const char* path, const Json& value, StatusCode code,
                           std::initializer_list<const char*> words) {
    refused([&](Checkpoint& c) { c.config["quantization_config"][Json::json_pointer(path)] = value; }, code, words);
  };
  using enum StatusCode;
  const std::string weights = "/config_groups/group_0/weights";
  setting("/format", "nvfp4-pack-quantized", unsupported, {"nvfp4-pack-quantized"});
  setting("/format", nullptr, not_found, {"format", "missing"});
  setting("/config_groups", Json::object(), corrupt_data, {"config_groups", "a group"});
  setting("/config_groups/group_0/weights", nullptr, unsupported, {"group_0", "no weights"});
  setting((weights + "/num_bits").c_str(), 3, unsupported, {"3 bits", "4 or 8"});
  setting((weights + "/num_bits").c_str(), "four", corrupt_data, {"num_bits", "integer"});
  setting((weights + "/type").c_str(), "float", unsupported, {"float", "pack-quantized"});
  setting((weights + "/strategy").c_str(), "tensor_group", unsupported, {"tensor_group", "channel"});
  setting((weights + "/group_size").c_str(), 12, corrupt_data, {"group", "12", "multiple of 8"});
  setting((weights + "/group_size").c_str(), nullptr, not_found, {"group_size", "missing"});
  setting("/config_groups/group_1", {{"weights", weights_of({.bits = 8})}}, unsupported, {"group_1", "the same form"});
  setting("/config_groups/group_0/format", "int-quantized", unsupported, {"group_0", "int-quantized"});
  setting("/kv_cache_scheme", {{"num_bits", 8}}, unsupported, {"kv_cache_scheme", "null"});
  setting("/transform_config", {{"config_groups", 1}}, unsupported, {"transform_config"});
  setting("/sparsity_config", {{"format", "sparse-24-bitmask"}}, unsupported, {"sparse-24-bitmask", "dense"});
  const std::string up = "model.layers.0.mlp.up_proj.";
  refused([&](Checkpoint& c) { c.shard.header.erase(up + "weight_zero_point"); }, not_found,
          {"up_proj.weight_zero_point", "missing"});
  refused([&](Checkpoint& c) { c.shard.header[up + "weight_scale"]["shape"] = {128}; }, corrupt_data,
          {"up_proj.weight_scale", "rank 1"});
  const auto turned = [&](Checkpoint& c, const std::string& name) {
    Json& shape = c.shard.header[up + name]["shape"];
    shape = {shape[1], shape[0]};
  };
  refused([&](Checkpoint& c) { turned(c, "weight_scale"); }, corrupt_data,
          {"up_proj.weight_scale", "the shape [2, 64]", "[64, 2]"});
  refused([&](Checkpoint& c) { turned(c, "weight_zero_point"); }, corrupt_data,
          {"up_proj.weight_zero_point", "the shape [2, 8]", "[8, 2]"});
  refused([&](Checkpoint& c) { c.shard.header[up + "weight_scale"]["dtype"] = "I32"; }, corrupt_data,
          {"up_proj.weight_scale", "'I32'", "BF16"});
  refused(
      [&](Checkpoint& c) {
        const std::size_t at = c.shard.header[up + "weight_shape"]["data_offsets"][0];
        c.shard.data[at + 8] = 31;  // inputs: the last word would be half full
      },
      corrupt_data, {"up_proj.weight_shape", "[64, 31]", "[64, 32]"});
}

}  // namespace
}  // namespace inlay::exec::test
