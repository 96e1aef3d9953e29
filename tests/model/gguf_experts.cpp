// Mixtures of experts as GGUF has them: which layers, in every format, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <inlay/model/load.hpp>

#include "executor/model/gguf/experts.hpp"
#include "tests/model/support/mixture_checkpoint.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/model/support/unchecked_gguf.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::expect_refused;

ModelConfig tiny_mixture(const std::string& arch) {
  ModelConfig c = tiny_config(arch);
  c.qk_norm = QkNorm::head;
  c.experts = {.count = experts, .top_k = 2, .hidden = hidden, .renormalize = true};
  return c;
}

// From the first on every second one: what the first is does not shift the others.
TEST(gguf_experts, layers_that_have_them) {
  std::vector<bool> has;
  for (index i = 0; i < 7; ++i) has.push_back(GgufSparse{.first = 2, .step = 2}.has(i));
  EXPECT_EQ(has, (std::vector<bool>{false, false, false, true, false, true, false}));
  ModelConfig c = tiny_mixture("ernie4_5-moe");
  c.layers = 6, c.qk_norm = QkNorm::none, c.ropes[0].pairing = RopeConfig::Pairing::interleaved;
  c.experts.choice_bias = true;
  for (const auto& [first, step] : {std::pair{0, 1}, {2, 1}, {3, 2}, {5, 1}, {1, 2}, {2, 3}}) {
    std::vector<LayerConfig> layers(6, {.hidden = c.hidden});
    for (int i = first; i < 6; ++i) layers[static_cast<std::size_t>(i)].sparse = (i + 1) % step == 0;
    ModelConfig each = c;
    each.set_layers(layers);
    const TemporaryDirectory d;
    const auto report = write_gguf(tiny_model(each).file, d / "m.gguf");
    ASSERT_TRUE(report) << report.error().message();
    const auto file = load_model(d / "m.gguf");
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(sparse_layers(file->config), sparse_layers(each)) << first << " " << step;
  }
  std::vector<LayerConfig> layers(6, {.hidden = c.hidden, .sparse = true});
  layers[3].sparse = false;  // which no key of GGUF says
  c.set_layers(layers);
  const TemporaryDirectory d;
  const auto refused = write_gguf(tiny_model(c).file, d / "m.gguf");
  ASSERT_FALSE(refused);
  expect_refused(refused.error(), StatusCode::unsupported, {"layers that have experts"});
}

// In every form that is written; what routes stays a float.
TEST(gguf_experts, every_format_holds_them) {
  const TinyModel from = tiny_model(tiny_mixture("qwen3moe"));
  const std::pair<WeightFormat, GgmlType> formats[] = {
      {WeightFormat::keep, GgmlType::F32}, {WeightFormat::f16, GgmlType::F16},   {WeightFormat::bf16, GgmlType::BF16},
      {WeightFormat::int8, GgmlType::I8},  {WeightFormat::q8_0, GgmlType::Q8_0}, {WeightFormat::q4_0, GgmlType::Q4_0}};
  for (const auto& [format, type] : formats) {
    SCOPED_TRACE(static_cast<int>(type));
    const TemporaryDirectory d;
    const auto report = write_gguf(from.file, d / "m.gguf", {.weights = format});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_TRUE(report->notes.empty() || type == GgmlType::I8);
    const auto to = load_model(d / "m.gguf");
    ASSERT_TRUE(to) << to.error().message();
    EXPECT_EQ(to->config.experts, from.file.config.experts);
    EXPECT_EQ(to->find("blk.0.ffn_gate_inp.weight")->type, GgmlType::F32);
    for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"}) {
      const WeightTensor &ours = *to->find(name), &theirs = *from.file.find(name);
      EXPECT_EQ(ours.type, type);
      std::vector<float> row, expected;
      const float step = type == GgmlType::Q4_0 ? 0.15f : type == GgmlType::F32 ? 0 : 0.01f;
      for (index r = 0; r < experts * hidden; ++r) {
        ASSERT_TRUE(to->read_row(ours, r, row));
        ASSERT_TRUE(from.file.read_row(theirs, r, expected));
        for (std::size_t i = 0; i < row.size(); ++i) ASSERT_NEAR(row[i], expected[i], step) << name << " " << r;
      }
    }
  }
}

bool is_of(const WeightTensor& tensor, const std::string& part) { return tensor.name == "blk.0." + part + ".weight"; }

// `one` as the matrices of its experts, "blk.0.ffn_up.2.weight".
void add_apart(const WeightTensor& one, const std::string& part, std::vector<WeightTensor>& tensors) {
  for (index e = 0; e < experts; ++e) {
    WeightTensor& each = tensors.emplace_back(one);
    each.name = "blk.0." + part + "." + std::to_string(e) + ".weight";
    each.rank = 2, each.extents = {one.extents[1], one.extents[2]};
    each.bytes /= experts, each.data += e * each.bytes;
  }
}

// Mixtral's first files have a matrix for each expert, and later ones gate and up in one tensor.
class GgufExpertTensors : public ::testing::Test {
 protected:
  explicit GgufExpertTensors(const ModelConfig& config = tiny_mixture("qwen3moe")) : from_(tiny_model(config)) {}
  const TinyModel from_;
  std::vector<WeightTensor> apart_, fused_;
  std::vector<float> gate_and_up_;

  void SetUp() override {
    const WeightTensor &gate = *from_.file.find("blk.0.ffn_gate_exps.weight"),
                       &up = *from_.file.find("blk.0.ffn_up_exps.weight");
    for (index e = 0; e < experts; ++e)
      for (const WeightTensor* half : {&gate, &up}) {
        const auto* values = reinterpret_cast<const float*>(half->data) + e * hidden * dim;
        gate_and_up_.insert(gate_and_up_.end(), values, values + hidden * dim);
      }
    for (const WeightTensor& each : from_.file.tensors()) {
      const bool half = is_of(each, "ffn_gate_exps") || is_of(each, "ffn_up_exps");
      if (!half) fused_.push_back(each);
      if (half)
        add_apart(each, is_of(each, "ffn_up_exps") ? "ffn_up" : "ffn_gate", apart_);
      else if (is_of(each, "ffn_down_exps"))
        add_apart(each, "ffn_down", apart_);
      else
        apart_.push_back(each);
    }
    fused_.push_back(gate);
    fused_.back().name = "blk.0.ffn_gate_up_exps.weight";
    fused_.back().extents[1] *= 2, fused_.back().bytes *= 2;
    fused_.back().data = reinterpret_cast<const std::byte*>(gate_and_up_.data());
  }
  Expected<ModelFile> loaded(std::vector<WeightTensor> tensors) const {
    const TemporaryDirectory d;
    ModelFile file = from_.file;
    file.set_tensors(std::move(tensors), {});
    write_unchecked(file, d / "m.gguf");
    return load_model(d / "m.gguf");
  }
  void expect_same(const ModelFile& file) const {
    for (const WeightTensor& theirs : from_.file.tensors()) {
      const WeightTensor* const ours = file.find(theirs.name);
      ASSERT_NE(ours, nullptr) << theirs.name;
      std::vector<float> row, expected;
      for (index r = 0; r < theirs.size() / theirs.extents[static_cast<std::size_t>(theirs.rank - 1)]; ++r) {
        ASSERT_TRUE(file.read_row(*ours, r, row));
        ASSERT_TRUE(from_.file.read_row(theirs, r, expected));
        ASSERT_EQ(row, expected) << theirs.name << " " << r;
      }
    }
  }
  void refused(std::vector<WeightTensor> tensors, StatusCode code, std::initializer_list<const char*> words) const {
    const auto file = loaded(std::move(tensors));
    ASSERT_FALSE(file.has_value());
    expect_refused(file.error(), code, words);
  }
};

TEST_F(GgufExpertTensors, of_each_expert_and_of_gate_above_up_are_the_same_model) {
  for (const auto& tensors : {apart_, fused_}) {
    const auto file = loaded(tensors);
    ASSERT_TRUE(file) << file.error().message();
    expect_same(*file);
    const TemporaryDirectory d;  // .. and are written as everybody has them now
    ASSERT_TRUE(write_gguf(*file, d / "m.gguf"));
    const auto again = load_model(d / "m.gguf");
    ASSERT_TRUE(again) << again.error().message();
    expect_same(*again);
  }
}

TEST_F(GgufExpertTensors, that_do_not_make_a_whole_are_refused) {
  const auto find = [](std::vector<WeightTensor>& in, const std::string& name) {
    return std::find_if(in.begin(), in.end(),
                        [&](const auto& each) { return each.name == "blk.0." + name + ".weight"; });
  };
  auto missing = apart_;
  missing.erase(find(missing, "ffn_up.1"));
  refused(missing, StatusCode::not_found, {"blk.0.ffn_up_exps.weight", "expert 1"});
  auto another = apart_;
  find(another, "ffn_up.1")->name = "blk.0.ffn_up.3.weight";
  refused(another, StatusCode::corrupt_data, {"blk.0.ffn_up.3.weight", "there are 3"});
  auto both = apart_;
  both.push_back(*from_.file.find("blk.0.ffn_down_exps.weight"));
  refused(both, StatusCode::corrupt_data, {"two tensors", "ffn_down"});
  auto with_gate = fused_;
  with_gate.push_back(*from_.file.find("blk.0.ffn_gate_exps.weight"));
  refused(with_gate, StatusCode::corrupt_data, {"two tensors", "gate"});
  auto odd = fused_;
  odd.back().extents[1] -= 1;
  refused(odd, StatusCode::corrupt_data, {"ffn_gate_up_exps", "even"});
  auto few = fused_;
  few.back().extents[0] -= 1;
  refused(few, StatusCode::corrupt_data, {"ffn_gate_up_exps", "3, the count of experts"});
}

// gpt-oss has biases, [experts, n], which come in the same forms.
class GgufExpertBiases : public GgufExpertTensors {
 protected:
  static ModelConfig with_biases() {
    ModelConfig c = tiny_config("gpt-oss");
    c.experts = {.count = experts, .top_k = 2, .hidden = hidden, .biases = true, .renormalize = true};
    c.activation = Activation::clipped_swiglu, c.sinks = c.qkv_bias = c.output_bias = true;
    return c;
  }
  GgufExpertBiases() : GgufExpertTensors(with_biases()) {}
  static bool is_bias(const WeightTensor& each, const std::string& part) {
    return each.name == "blk.0." + part + ".bias";
  }
  std::vector<float> both_;
  // gate and up in one tensor, or all of them by expert.
  std::vector<WeightTensor> fused_biases() {
    std::vector<WeightTensor> tensors;
    const WeightTensor &gate = *from_.file.find("blk.0.ffn_gate_exps.bias"),
                       &up = *from_.file.find("blk.0.ffn_up_exps.bias");
    for (index e = 0; e < experts; ++e)
      for (const WeightTensor* half : {&gate, &up}) {
        const auto* values = reinterpret_cast<const float*>(half->data) + e * hidden;
        both_.insert(both_.end(), values, values + hidden);
      }
    for (const WeightTensor& each : fused_)
      if (!is_bias(each, "ffn_gate_exps") && !is_bias(each, "ffn_up_exps")) tensors.push_back(each);
    tensors.push_back(gate);
    tensors.back().name = "blk.0.ffn_gate_up_exps.bias";
    tensors.back().extents[1] *= 2, tensors.back().bytes *= 2;
    tensors.back().data = reinterpret_cast<const std::byte*>(both_.data());
    return tensors;
  }
  std::vector<WeightTensor> biases_apart() {
    std::vector<WeightTensor> tensors;
    for (const WeightTensor& each : apart_) {
      const std::string stem = each.name.substr(0, each.name.find("_exps.bias"));
      if (stem == each.name) {
        tensors.push_back(each);
        continue;
      }
      for (index e = 0; e < experts; ++e) {
        WeightTensor& one = tensors.emplace_back(each);
        one.name = stem + "." + std::to_string(e) + ".bias";
        one.rank = 1, one.extents = {each.extents[1]}, one.bytes /= experts, one.data += e * one.bytes;
      }
    }
    return tensors;
  }
};

TEST_F(GgufExpertBiases, of_each_expert_and_of_gate_above_up_are_the_same_model) {
  for (const auto& tensors : {fused_biases(), biases_apart()}) {
    const auto file = loaded(tensors);
    ASSERT_TRUE(file) << file.error().message();
    expect_same(*file);
    const WeightTensor& up = *file->find("blk.0.ffn_up_exps.bias");
    EXPECT_TRUE(up.is_contiguous());  // operators read all rows as they lie
  }
}

TEST_F(GgufExpertBiases, that_do_not_make_a_whole_are_refused) {
  auto odd = fused_biases();
  odd.back().extents[1] -= 1;
  refused(odd, StatusCode::corrupt_data, {"ffn_gate_up_exps.bias", "even"});
  auto flat = fused_biases();
  flat.back().rank = 1, flat.back().extents = {2 * hidden * experts};
  refused(flat, StatusCode::corrupt_data, {"ffn_gate_up_exps.bias", "2, the first one 3"});
  auto missing = biases_apart();
  std::erase_if(missing, [](const auto& each) { return each.name == "blk.0.ffn_down.2.bias"; });
  refused(missing, StatusCode::not_found, {"blk.0.ffn_down_exps.bias", "expert 2"});
  auto both = biases_apart();
  both.push_back(*from_.file.find("blk.0.ffn_down_exps.bias"));
  refused(both, StatusCode::corrupt_data, {"two tensors", "ffn_down"});
  auto square = biases_apart();
  for (WeightTensor& each : square)
    if (each.name == "blk.0.ffn_up.1.bias") each.rank = 2, each.extents = {1, hidden};
  refused(square, StatusCode::corrupt_data, {"blk.0.ffn_up.1.bias", "[1, 32]", "must have 1"});
}

TEST(gguf_experts, keys_that_no_operator_could_obey_are_refused) {
  const TinyModel from = tiny_model(tiny_mixture("qwen3moe"));
  const auto wrong = [&](StatusCode code, const std::function<void(GgufWriter&)>& more,
                         std::initializer_list<const char*> words) {
    const TemporaryDirectory d;
    write_unchecked(from.file, d / "m.gguf", more);
    const auto file = load_model(d / "m.gguf");
    ASSERT_FALSE(file.has_value());
    expect_refused(file.error(), code, words);
  };
  // The first of two equal keys counts, or the second is refused: either way one is wrong.
  const auto key = [](const char* name, std::uint32_t value) {
    return [name, value](GgufWriter& writer) { writer.set(std::string("qwen3moe.") + name, value); };
  };
  wrong(StatusCode::corrupt_data, key("leading_dense_block_count", 9), {"leading_dense_block_count", "9", "0 to 1"});
  wrong(StatusCode::corrupt_data, key("interleave_moe_layer_step", 0), {"interleave_moe_layer_step", "0", "1 to 1"});
  ModelConfig chosen = tiny_mixture("glm4moe");
  chosen.experts.choice_bias = true, chosen.experts.score = MoeScore::softmax_of_chosen;
  const auto written = write_gguf(tiny_model(chosen).file, TemporaryDirectory() / "m.gguf");
  ASSERT_FALSE(written);
  expect_refused(written.error(), StatusCode::unsupported, {"bias", "softmax of the chosen"});
  TinyModel dense = tiny_model("qwen2");
  const TemporaryDirectory d;
  write_unchecked(dense.file, d / "m.gguf", [](GgufWriter& writer) { writer.set("qwen2.expert_count", 4u); });
  const auto file = load_model(d / "m.gguf");
  ASSERT_FALSE(file.has_value());
  expect_refused(file.error(), StatusCode::unsupported, {"qwen2", "4 experts"});
}

}  // namespace
}  // namespace inlay::exec::test
