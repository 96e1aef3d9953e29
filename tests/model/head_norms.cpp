// Layer norms of q and k with weights for each head: a tensor for each, or one of all.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "executor/model/hf/head_norms.hpp"
#include "tests/model/support/hf_config.hpp"
#include "tests/model/support/tiny_model.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::expect_refused;

ModelConfig stablelm() {
  Json json = config_of("stablelm");
  json["qk_layernorm"] = true;
  return read(json);
}

struct Norm {
  std::vector<float> values;
  WeightTensor tensor;
  Norm(index n, float first) {
    for (index i = 0; i < n; ++i) values.push_back(first + static_cast<float>(i));
    tensor = {.rank = 1, .extents = {n}, .data = reinterpret_cast<const std::byte*>(values.data()), .bytes = n * 4};
  }
};

std::string name_of(const char* part, index head) {
  return std::string("model.layers.0.self_attn.") + part + ".norms." + std::to_string(head) + ".weight";
}

TEST(head_norms, those_of_a_layer_become_one_in_the_order_of_heads) {
  const ModelConfig config = stablelm();  // 4 heads and 2 kv heads of 8
  HfHeadNorms norms(config);
  std::vector<Norm> each;
  for (index i = 0; i < 4; ++i) each.emplace_back(8, 100.f * static_cast<float>(i));
  for (const index head : {2, 0, 3, 1}) {
    const auto taken = norms.take("m", name_of("q_layernorm", head), each[static_cast<std::size_t>(head)].tensor);
    ASSERT_TRUE(taken.has_value() && *taken);
  }
  for (const index head : {1, 0})
    ASSERT_TRUE(*norms.take("m", name_of("k_layernorm", head), each[static_cast<std::size_t>(head)].tensor));
  std::vector<std::shared_ptr<const Mapping>> memory;
  const auto all = norms.tensors("m", memory);
  ASSERT_TRUE(all) << all.error().message();
  ASSERT_EQ(all->size(), 2u);
  for (const WeightTensor& whole : *all) {
    const index heads = whole.name == "blk.0.attn_q_norm.weight" ? 4 : 2;
    EXPECT_EQ(whole.name, heads == 4 ? "blk.0.attn_q_norm.weight" : "blk.0.attn_k_norm.weight");
    ASSERT_EQ(whole.extents[0], heads * 8);
    const auto* values = reinterpret_cast<const float*>(whole.data);
    for (index i = 0; i < heads * 8; ++i) EXPECT_EQ(values[i], static_cast<float>(100 * (i / 8) + i % 8));
  }
}

TEST(head_norms, what_is_none_is_left_alone_and_what_does_not_fit_is_refused) {
  HfHeadNorms norms(stablelm());
  const Norm eight(8, 0), seven(7, 0);
  for (const char* name :
       {"model.norm.weight", "model.layers.0.self_attn.q_layernorm.norms.x.weight",
        "model.layers.0.self_attn.q_layernorm.norms.1.bias", "model.layers.0.self_attn.q_proj.weight"}) {
    const auto taken = norms.take("m", name, eight.tensor);
    EXPECT_TRUE(taken.has_value() && !*taken) << name;
  }
  EXPECT_FALSE(*HfHeadNorms(read(config_of("stablelm"))).take("m", name_of("q_layernorm", 0), eight.tensor));
  const auto refused = [&](const std::string& name, const Norm& norm, std::initializer_list<const char*> words) {
    const auto taken = norms.take("m", name, norm.tensor);
    ASSERT_FALSE(taken.has_value());
    expect_refused(taken.error(), StatusCode::corrupt_data, words);
  };
  refused(name_of("q_layernorm", 4), eight, {"q_layernorm.norms.4", "4"});
  refused(name_of("k_layernorm", 2), eight, {"k_layernorm.norms.2", "2"});
  refused(name_of("q_layernorm", 0), seven, {"q_layernorm.norms.0", "[7]", "[8]"});
  ASSERT_TRUE(*norms.take("m", name_of("q_layernorm", 0), eight.tensor));
  refused(name_of("q_layernorm", 0), eight, {"two tensors", "q_layernorm.norms.0"});
  std::vector<std::shared_ptr<const Mapping>> memory;
  const auto few = norms.tensors("m", memory);
  ASSERT_FALSE(few.has_value());
  expect_refused(few.error(), StatusCode::not_found, {"attn_q_norm", "1 heads", "4"});
}

// Norms of the stream are layer norms where these are, and the other way round.
TEST(head_norms, rms_norms_beside_them_are_refused) {
  ModelConfig c = tiny_config("command-r");
  c.norm = NormKind::layer, c.qk_norm = QkNorm::head, c.ropes[0].pairing = RopeConfig::Pairing::interleaved;
  auto written = write_gguf(tiny_model(c).file, TemporaryDirectory() / "m.gguf");
  ASSERT_FALSE(written);
  expect_refused(written.error(), StatusCode::unsupported, {"norms of q and k", "layer norms"});
  c = tiny_config(), c.qk_norm = QkNorm::each_head;
  written = write_gguf(tiny_model(c).file, TemporaryDirectory() / "m.gguf");
  ASSERT_FALSE(written);
  expect_refused(written.error(), StatusCode::unsupported, {"norms of q and k", "layer norms"});
}

}  // namespace
}  // namespace inlay::exec::test
