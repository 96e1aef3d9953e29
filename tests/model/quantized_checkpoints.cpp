// Checkpoints of GPTQ, AWQ and fp8: every number that a file's codes stand for, by the formats' own definitions.
#include <cmath>
#include <random>

#include <inlay/core/element.hpp>
#include <inlay/model/checkpoint_codes.hpp>
#include <inlay/model/convert.hpp>
#include <inlay/model/linear_weight.hpp>
#include <inlay/model/load.hpp>

#include "tests/model/support/quantized_checkpoint.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {
namespace {

struct Gptq {
  index bits = 4, group = 16;
  bool v2 = false, act_order = false;
};

// Frantar's formula with AutoGPTQ's packing: v1 stores zero points less one, in whole words with borrow.
Matrix add_gptq(Checkpoint& c, const std::string& stem, index n, index k, const Gptq& form) {
  const index per_word = 32 / form.bits, groups = k / form.group;
  const int below = 1 << form.bits;
  const Codes q = c.drawn_codes(n, k, below), zero = c.drawn_codes(groups, n, below);
  std::vector<std::uint32_t> qweight(static_cast<std::size_t>(k / per_word * n)),
      qzeros(static_cast<std::size_t>(groups * n / per_word)), g_idx(static_cast<std::size_t>(k));
  std::vector<float> scales(static_cast<std::size_t>(groups * n));
  for (float& s : scales) s = c.drawn_scale();
  for (index i = 0; i < k; ++i) g_idx[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(i / form.group);
  if (form.act_order) std::shuffle(g_idx.begin(), g_idx.end(), c.rng);
  for (index i = 0; i < k; ++i)
    for (index o = 0; o < n; ++o)
      qweight[static_cast<std::size_t>(i / per_word * n + o)] |= static_cast<std::uint32_t>(q[o][i])
                                                                 << (i % per_word * form.bits);
  for (index g = 0; g < groups; ++g)
    for (index o = 0; o < n; ++o)
      qzeros[static_cast<std::size_t>((g * n + o) / per_word)] |= static_cast<std::uint32_t>(zero[g][o])
                                                                  << (o % per_word * form.bits);
  if (!form.v2)
    for (std::uint32_t& word : qzeros) word -= form.bits == 4 ? 0x11111111u : 0x01010101u;
  c.words(stem + ".qweight", {k / per_word, n}, qweight);
  c.words(stem + ".qzeros", {groups, n / per_word}, qzeros);
  c.floats(stem + ".scales", {groups, n}, scales);
  if (form.act_order) c.words(stem + ".g_idx", {k}, g_idx);
  Matrix w(static_cast<std::size_t>(n), std::vector<float>(static_cast<std::size_t>(k)));
  for (index o = 0; o < n; ++o)
    for (index i = 0; i < k; ++i) {
      const auto g = g_idx[static_cast<std::size_t>(i)];
      w[o][i] = static_cast<float>(q[o][i] - zero[g][o]) * scales[static_cast<std::size_t>(g * n + o)];
    }
  return w;
}

TEST(quantized_checkpoints, gptq) {
  for (const Gptq& form : {Gptq{}, Gptq{.v2 = true}, Gptq{.act_order = true}, Gptq{.bits = 8}, Gptq{.group = 32},
                           Gptq{.bits = 8, .v2 = true, .act_order = true}}) {
    SCOPED_TRACE(std::to_string(form.bits) + " bits, groups of " + std::to_string(form.group));
    Checkpoint c;
    c.config["quantization_config"] = {
        {"quant_method", "gptq"},     {"bits", form.bits}, {"group_size", form.group},
        {"desc_act", form.act_order}, {"sym", false},      {"checkpoint_format", form.v2 ? "gptq_v2" : "gptq"}};
    std::vector<Matrix> expected;
    for (const auto& l : linears)
      expected.push_back(add_gptq(c, "model.layers.0." + std::string(l.theirs), l.n, l.k, form));
    const TemporaryDirectory d;
    c.write(d);
    const auto file = load_model(d / "");
    ASSERT_NO_FATAL_FAILURE(expect_linears(file, expected));
    EXPECT_EQ(file->find("blk.0.attn_q.weight")->codes->format(), "GPTQ, " + std::to_string(form.bits) + " bits");
  }
}

// AutoGPTQ's own file, and the whole row as one group.
TEST(quantized_checkpoints, gptq_says_so_in_a_file_of_its_own) {
  Checkpoint c;
  std::vector<Matrix> expected;
  for (const auto& l : linears)
    expected.push_back(add_gptq(c, "model.layers.0." + std::string(l.theirs), l.n, l.k, {.group = l.k}));
  const TemporaryDirectory d;
  c.write(d);
  write_text(d / "quantize_config.json", R"({"bits": 4, "group_size": -1, "desc_act": false, "sym": true})");
  const auto file = load_model(d / "");
  ASSERT_NO_FATAL_FAILURE(expect_linears(file, expected));
}

TEST(quantized_checkpoints, awq) {
  Checkpoint c;
  c.config["quantization_config"] = {
      {"quant_method", "awq"}, {"bits", 4}, {"group_size", 16}, {"version", "GEMM"}, {"zero_point", true}};
  constexpr int order[] = {0, 2, 4, 6, 1, 3, 5, 7};  // of channels in a word, from the lowest bits on
  std::vector<Matrix> expected;
  for (const auto& l : linears) {
    const index n = l.n, k = l.k, groups = k / 16;
    const Codes q = c.drawn_codes(k, n, 16), zero = c.drawn_codes(groups, n, 16);
    const auto words = [&](const Codes& codes) {
      std::vector<std::uint32_t> list;
      for (const auto& row : codes)
        for (index first = 0; first < n; first += 8) {
          std::uint32_t word = 0;
          for (int j = 0; j < 8; ++j) word |= static_cast<std::uint32_t>(row[first + order[j]]) << (4 * j);
          list.push_back(word);
        }
      return list;
    };
    std::vector<float> scales(static_cast<std::size_t>(groups * n));
    for (float& s : scales) s = c.drawn_scale();
    const std::string stem = "model.layers.0." + std::string(l.theirs);
    c.words(stem + ".qweight", {k, n / 8}, words(q)), c.words(stem + ".qzeros", {groups, n / 8}, words(zero));
    c.floats(stem + ".scales", {groups, n}, scales);
    Matrix w(static_cast<std::size_t>(n), std::vector<float>(static_cast<std::size_t>(k)));
    for (index o = 0; o < n; ++o)
      for (index i = 0; i < k; ++i)
        w[o][i] = static_cast<float>(q[i][o] - zero[i / 16][o]) * scales[static_cast<std::size_t>(i / 16 * n + o)];
    expected.push_back(std::move(w));
  }
  const TemporaryDirectory d;
  c.write(d);
  const auto file = load_model(d / "");
  ASSERT_NO_FATAL_FAILURE(expect_linears(file, expected));
}

// The numbers of E4M3 in order of their codes: 0, 7 steps of 2^-9, then 8 of each binade up to 448.
std::vector<float> e4m3() {
  std::vector<float> list;
  for (int m = 0; m < 8; ++m) list.push_back(static_cast<float>(m) / 512);
  for (float begin = 1.0f / 64; begin <= 256; begin *= 2)
    for (int m = 0; m < 8; ++m) list.push_back(begin * (1 + static_cast<float>(m) / 8));
  list.resize(127);
  return list;
}

TEST(quantized_checkpoints, fp8_of_blocks_rows_and_tensors) {
  const std::vector<float> numbers = e4m3();
  EXPECT_EQ(numbers[126], 448);
  struct Form {
    index rows, columns;  // of a scale; 0: of all
  };
  for (const Form form : {Form{16, 12}, Form{1, 0}, Form{0, 0}}) {
    Checkpoint c;
    const bool blocks = form.columns != 0;
    c.config["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"fmt", "e4m3"}};
    if (blocks) c.config["quantization_config"]["weight_block_size"] = {form.rows, form.columns};
    std::vector<Matrix> expected;
    for (const auto& l : linears) {
      const index rows = form.rows == 0 ? l.n : form.rows, columns = blocks ? form.columns : l.k;
      const index down = (l.n + rows - 1) / rows, across = (l.k + columns - 1) / columns;
      std::vector<float> scales(static_cast<std::size_t>(down * across));
      for (float& s : scales) s = std::ldexp(1.0f + static_cast<float>(c.drawn(1000)) / 1000, -8);
      std::string bytes;
      Matrix w(static_cast<std::size_t>(l.n), std::vector<float>(static_cast<std::size_t>(l.k)));
      for (index o = 0; o < l.n; ++o)
        for (index i = 0; i < l.k; ++i) {
          const int code = c.drawn(127), sign = c.drawn(2);
          bytes.push_back(static_cast<char>(code | sign << 7));
          const double exact = static_cast<double>(sign != 0 ? -numbers[code] : numbers[code]) *
                               scales[static_cast<std::size_t>(o / rows * across + i / columns)];
          std::uint16_t rounded = 0;  // to bf16
          store_element(&rounded, DType::bf16, 0, exact);
          w[o][i] = static_cast<float>(load_element(&rounded, DType::bf16, 0));
        }
      const std::string stem = "model.layers.0." + std::string(l.theirs);
      c.raw(stem + ".weight", "F8_E4M3", {l.n, l.k}, bytes);
      if (blocks)
        c.floats(stem + ".weight_scale_inv", {down, across}, scales);
      else if (form.rows == 1)
        c.floats(stem + ".weight_scale", {l.n, 1}, scales);
      else
        c.floats(stem + ".weight_scale", {}, scales), c.floats(stem + ".input_scale", {}, {3});
      expected.push_back(std::move(w));
    }
    const TemporaryDirectory d;
    c.write(d);
    const auto file = load_model(d / "");
    ASSERT_NO_FATAL_FAILURE(expect_linears(file, expected));
  }
}

// Phi-3's fused matrices are cut by channels: with words of eight zero points too.
TEST(quantized_checkpoints, fused_linears_are_cut) {
  Checkpoint c;
  c.config["model_type"] = "phi3", c.config["num_key_value_heads"] = 2, c.config["pad_token_id"] = nullptr;
  c.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}};
  const Matrix qkv = add_gptq(c, "model.layers.0.self_attn.qkv_proj", 64, 32, {});
  add_gptq(c, "model.layers.0.self_attn.o_proj", 32, 32, {});
  const Matrix gate_up = add_gptq(c, "model.layers.0.mlp.gate_up_proj", 128, 32, {});
  add_gptq(c, "model.layers.0.mlp.down_proj", 32, 64, {});
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

TEST(quantized_checkpoints, become_gguf) {
  Checkpoint c;
  c.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}};
  std::vector<Matrix> expected;
  for (const auto& l : linears)
    expected.push_back(add_gptq(c, "model.layers.0." + std::string(l.theirs), l.n, l.k, {.act_order = true}));
  const TemporaryDirectory d;
  c.write(d);
  const auto report = convert(d / "", d / "m.gguf", {.weights = WeightFormat::keep});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->notes.size(), std::size(linears));
  const auto file = load_model(d / "m.gguf");
  // Rows of q and k go over to GGUF's pairs; those of the others stay. Small codes times few scales fit an f16.
  expect_linears(file, expected, 2);
}

TEST(quantized_checkpoints, what_does_not_fit_is_refused_by_name) {
  const auto refused = [](const std::function<void(Checkpoint&)>& change, StatusCode code,
                          std::initializer_list<const char*> words) {
    Checkpoint c;
    c.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}};
    for (const auto& l : linears) add_gptq(c, "model.layers.0." + std::string(l.theirs), l.n, l.k, {.act_order = true});
    change(c);
    const TemporaryDirectory d;
    c.write(d);
    const auto file = load_model(d / "");
    ASSERT_FALSE(file);
    inlay::test::expect_refused(file.error(), code, words);
  };
  const auto setting = [&](const char* key, const Json& value, std::initializer_list<const char*> words) {
    refused([&](Checkpoint& c) { c.config["quantization_config"][key] = value; }, StatusCode::unsupported, words);
  };
  setting("bits", 3, {"3 bits", "4 or 8"});
  setting("quant_method", "bitsandbytes", {"bitsandbytes", "gptq, awq, fp8, compressed-tensors or mxfp4"});
  setting("checkpoint_format", "marlin", {"marlin", "gptq_v2"});
  setting("dynamic", {{"-:lm_head", Json::object()}}, {"dynamic"});
  const std::string up = "model.layers.0.mlp.up_proj.";
  const auto tensor = [&](const std::string& name, const char* key, const Json& value, StatusCode code,
                          std::initializer_list<const char*> words) {
    refused([&](Checkpoint& c) { c.shard.header[name][key] = value; }, code, words);
  };
  tensor(up + "qzeros", "shape", {4, 4}, StatusCode::corrupt_data, {"mlp.up_proj", "qzeros", "[4, 4]", "[2, 8]"});
  tensor(up + "qweight", "shape", {256}, StatusCode::corrupt_data, {"up_proj.qweight", "rank 1"});
  tensor(up + "g_idx", "dtype", "I\n32", StatusCode::corrupt_data, {"up_proj.g_idx", "'I\\x0a32'", "I32"});
  refused([&](Checkpoint& c) { c.shard.header.erase(up + "scales"); }, StatusCode::not_found,
          {"up_proj.scales", "missing"});
  refused([&](Checkpoint& c) { c.config["quantization_config"]["group_size"] = 12; }, StatusCode::corrupt_data,
          {"group", "12", "multiple of 8"});
  refused(
      [&](Checkpoint& c) {
        const std::size_t at = c.shard.header[up + "g_idx"]["data_offsets"][0];
        c.shard.data[at] = 9;
      },
      StatusCode::corrupt_data, {"g_idx", "9", "0..1"});
}

// Their extents times the codes of a word are more than an index holds.
TEST(quantized_checkpoints, tensors_without_elements_are_refused_whatever_their_extents) {
  constexpr index many = index{1} << 60;
  const std::string up = "model.layers.0.mlp.up_proj.";
  for (const char* method : {"gptq", "awq", "fp8"})
    for (const std::vector<index>& shape : {std::vector<index>{many, 0}, {0, many}}) {
      Checkpoint c;
      c.config["quantization_config"] = {{"quant_method", method}, {"bits", 4}, {"group_size", -1}};
      for (const char* part : {"qweight", "qzeros", "scales"}) c.raw(up + part, "I32", shape, "");
      if (std::string(method) == "fp8")
        c.shard = Checkpoint().shard, c.raw(up + "weight", "F8_E4M3", shape, ""),
        c.floats(up + "weight_scale", {}, {1});
      const TemporaryDirectory d;
      c.write(d);
      const auto file = load_model(d / "");
      ASSERT_FALSE(file);
      inlay::test::expect_refused(file.error(), StatusCode::corrupt_data,
                                  {"model.safetensors", "mlp.up_proj.", "no elements"});
    }
}

}  // namespace
}  // namespace inlay::exec::test
