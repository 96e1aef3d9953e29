// Mixtures of experts in files: what the keys say, tensors of single experts and of all.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <inlay/model/convert.hpp>
#include <inlay/model/load.hpp>

#include "tests/model/support/hf_config.hpp"
#include "tests/model/support/mixture_checkpoint.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::expect_refused;

TEST(experts, keys_say_what_they_are) {
  EXPECT_EQ(read(config_of("mixtral")).experts,
            (ExpertsConfig{.count = 8, .top_k = 2, .hidden = 64, .renormalize = true}));
  EXPECT_EQ(read(config_of("qwen2_moe")).experts,
            (ExpertsConfig{.count = 60, .top_k = 4, .hidden = 1408, .shared_hidden = 5632, .shared_gate = true}));
  EXPECT_EQ(read(config_of("qwen3_moe")).experts, (ExpertsConfig{.count = 128, .top_k = 8, .hidden = 768}));
  EXPECT_EQ(read(config_of("olmoe")).experts, (ExpertsConfig{.count = 64, .top_k = 8, .hidden = 64}));
  EXPECT_EQ(read(config_of("granitemoe")).experts,
            (ExpertsConfig{.count = 8, .top_k = 2, .hidden = 64, .renormalize = true}));
  Json json = config_of("glm4_moe", 3);
  json["n_group"] = 8, json["topk_group"] = 4, json["routed_scaling_factor"] = 2.5, json["n_shared_experts"] = 2;
  EXPECT_EQ(read(json).experts, (ExpertsConfig{.count = 128,
                                               .top_k = 8,
                                               .hidden = 1408,
                                               .shared_hidden = 2816,
                                               .choice_bias = true,
                                               .score = MoeScore::sigmoid,
                                               .groups = 8,
                                               .groups_kept = 4,
                                               .group_score = MoeGroupScore::sum_of_two,
                                               .renormalize = true,
                                               .scale = 2.5}));
  json = config_of("dots1"), json["n_routed_experts"] = 16, json["num_experts_per_tok"] = 6;
  json["moe_intermediate_size"] = 24, json["topk_method"] = "noaux_tc", json["scoring_func"] = "noaux_tc";
  json["moe_layer_freq"] = 1;
  EXPECT_EQ(read(json).experts,
            (ExpertsConfig{.count = 16, .top_k = 6, .hidden = 24, .choice_bias = true, .score = MoeScore::sigmoid}));
  json["scoring_func"] = "softmax";
  refuse(json, StatusCode::unsupported, {"scoring_func", "softmax"});
  json["scoring_func"] = nullptr, json["topk_method"] = "greedy";
  refuse(json, StatusCode::unsupported, {"topk_method", "greedy"});
  json["topk_method"] = nullptr, json["moe_layer_freq"] = 2;
  refuse(json, StatusCode::unsupported, {"moe_layer_freq", "2"});
  json.erase("moe_layer_freq"), json.erase("n_routed_experts");
  refuse(json, StatusCode::not_found, {"n_routed_experts", "missing"});
  json = config_of("ernie4_5_moe", 2), json["num_experts_per_tok"] = 3;
  EXPECT_EQ(
      read(json).experts,
      (ExpertsConfig{
          .count = 64, .top_k = 3, .hidden = 1536, .shared_hidden = 3072, .choice_bias = true, .renormalize = true}));
  json["moe_k"] = 4;
  refuse(json, StatusCode::corrupt_data, {"num_experts_per_tok", "3", "moe_k", "4"});
  json = config_of("granitemoeshared"), json["shared_intermediate_size"] = 40;
  EXPECT_EQ(read(json).experts,
            (ExpertsConfig{.count = 8, .top_k = 2, .hidden = 64, .shared_hidden = 40, .renormalize = true}));
  json["model_type"] = "granitemoe";
  refuse(json, StatusCode::unsupported, {"shared_intermediate_size", "40", "granitemoe"});
  EXPECT_EQ(read(config_of("flex_olmo")).experts, (ExpertsConfig{.count = 7, .top_k = 5, .hidden = 64}));
  json = config_of("minimax_m2");
  EXPECT_EQ(read(json).experts, (ExpertsConfig{.count = 256,
                                               .top_k = 8,
                                               .hidden = 64,
                                               .choice_bias = true,
                                               .score = MoeScore::sigmoid,
                                               .renormalize = true}));
  EXPECT_EQ(read(json).ropes[0].dim, 128);
  json["rotary_dim"] = 64;
  EXPECT_EQ(read(json).ropes[0].dim, 64);
  json["rotary_dim"] = 130;
  refuse(json, StatusCode::corrupt_data, {"rotary_dim", "130", "2 to 128"});
  json = config_of("qwen3_moe"), json["num_experts"] = 16, json["num_experts_per_tok"] = 3;
  json["moe_intermediate_size"] = 24, json["norm_topk_prob"] = true;
  EXPECT_EQ(read(json).experts, (ExpertsConfig{.count = 16, .top_k = 3, .hidden = 24, .renormalize = true}));
}

// Two experts, whatever the file says; magnitudes of short and of long texts are one number.
TEST(experts, of_phi) {
  Json json = config_of("phimoe");
  json["rms_norm_eps"] = 1e-5, json["input_jitter_noise"] = 0.01;
  EXPECT_EQ(read(json).experts,
            (ExpertsConfig{.count = 16, .top_k = 2, .hidden = 64, .score = MoeScore::sparsemixer, .jitter = 0.01}));
  json["router_jitter_noise"] = 0.125, json["lm_head_bias"] = true;
  EXPECT_EQ(read(json).experts.jitter, 0.125);
  EXPECT_TRUE(read(json).head_bias && read(json).norm_bias);
  json["router_jitter_noise"] = -0.5;
  refuse(json, StatusCode::corrupt_data, {"jitter", "-0.5", "0 or more"});
  json["router_jitter_noise"] = 0.01, json["num_experts_per_tok"] = 3;
  refuse(json, StatusCode::unsupported, {"num_experts_per_tok", "3", "must be 2"});
  json.erase("num_experts_per_tok");
  const auto pairs = static_cast<std::size_t>(read(json).head_dim / 2);
  Json& rope = json["rope_scaling"] = {{"type", "longrope"}, {"original_max_position_embeddings", 4096}};
  rope["short_factor"] = rope["long_factor"] = std::vector<double>(pairs, 1.5);
  rope["short_mscale"] = rope["long_mscale"] = 1.243163121016122;
  EXPECT_EQ(read(json).ropes[0].attention_factor, 1.243163121016122);
  rope["long_mscale"] = 1.5;
  refuse(json, StatusCode::unsupported, {"short_mscale", "long_mscale"});
}

// What transformers 5 saves calls it num_local_experts in every family.
TEST(experts, their_count_has_two_names) {
  Json json = config_of("qwen3_moe");
  json["num_local_experts"] = 16;
  EXPECT_EQ(read(json).experts.count, 16);
  json["num_experts"] = 16;
  EXPECT_EQ(read(json).experts.count, 16);
  json["num_experts"] = 32;
  refuse(json, StatusCode::corrupt_data, {"num_local_experts", "16", "num_experts", "32"});
  json = config_of("llama"), json["num_local_experts"] = 8;
  refuse(json, StatusCode::unsupported, {"num_local_experts", "llama"});
}

TEST(experts, layers_that_have_them) {
  using Sparse = std::vector<bool>;
  Json json = config_of("qwen2_moe", 5);
  EXPECT_EQ(sparse_layers(read(json)), Sparse(5, true));
  EXPECT_TRUE(read(json).per_layer.empty());
  json["mlp_only_layers"] = {0, 3};
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, true, true, false, true}));
  json["decoder_sparse_step"] = 2;
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, true, false, false, false}));
  json["mlp_only_layers"] = nullptr;
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, true, false, true, false}));
  json["decoder_sparse_step"] = 6;  // none
  EXPECT_EQ(sparse_layers(read(json)), Sparse(5, false));
  EXPECT_EQ(read(json).experts.count, 0);
  json = config_of("glm4_moe", 3);
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, true, true}));
  json["first_k_dense_replace"] = 2;
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, false, true}));
  EXPECT_EQ(sparse_layers(read(config_of("mixtral", 2))), Sparse(2, true));
  json = config_of("ernie4_5_moe", 6);
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, true, true, true, true, true}));
  json["moe_layer_start_index"] = 2, json["moe_layer_end_index"] = 4;
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, false, true, true, true, false}));
  json["moe_layer_interval"] = 2;
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, false, false, true, false, false}));
  json["moe_layer_end_index"] = -1;
  EXPECT_EQ(sparse_layers(read(json)), (Sparse{false, false, false, true, false, true}));
}

TEST(experts, keys_that_no_operator_could_obey_are_refused) {
  const auto wrong = [](const char* architecture, const Json& keys, std::initializer_list<const char*> words) {
    Json json = config_of(architecture, 2);
    json.update(keys);
    refuse(json, StatusCode::corrupt_data, words);
  };
  wrong("mixtral", {{"num_experts_per_tok", 9}}, {"token's experts", "9", "8"});
  wrong("mixtral", {{"num_experts_per_tok", 0}}, {"token's experts", "is 0"});
  wrong("mixtral", {{"num_local_experts", -1}}, {"experts", "-1"});
  wrong("mixtral", {{"num_local_experts", 1000000}}, {"count of experts", "1000000"});
  wrong("qwen3_moe", {{"moe_intermediate_size", 0}}, {"width of an expert", "is 0"});
  wrong("qwen2_moe", {{"shared_expert_intermediate_size", -3}}, {"shared expert", "-3"});
  wrong("qwen2_moe", {{"decoder_sparse_step", 0}}, {"decoder_sparse_step", "is 0", "1"});
  wrong("qwen2_moe", {{"mlp_only_layers", {2}}}, {"mlp_only_layers", "2", "0 to 1"});
  wrong("qwen2_moe", {{"mlp_only_layers", 1}}, {"mlp_only_layers", "list"});
  wrong("glm4_moe", {{"n_group", 3}}, {"128 experts", "3 groups"});
  wrong("glm4_moe", {{"n_group", 4}, {"topk_group", 5}}, {"groups kept", "5", "4"});
  wrong("glm4_moe", {{"n_group", 64}, {"topk_group", 2}}, {"2 groups of 2", "8"});
  wrong("glm4_moe", {{"routed_scaling_factor", -1.0}}, {"scale of experts", "positive"});
  wrong("glm4_moe", {{"n_shared_experts", -1}}, {"n_shared_experts", "-1"});
  wrong("ernie4_5_moe", {{"moe_layer_interval", 0}}, {"moe_layer_interval", "is 0", "1"});
  Json norm = config_of("ernie4_5_moe", 2);
  norm["moe_norm_min"] = 0.5;
  refuse(norm, StatusCode::unsupported, {"moe_norm_min", "0.5"});
  Json json = config_of("olmoe");
  json["clip_qkv"] = nullptr;
  EXPECT_TRUE(config_from(json));
  json["clip_qkv"] = 8.0;
  refuse(json, StatusCode::unsupported, {"clip_qkv", "8"});
}

Json mixture_config() {
  Json json = config_of("qwen3_moe");
  json["num_experts"] = experts, json["num_experts_per_tok"] = 2, json["moe_intermediate_size"] = hidden;
  json["head_dim"] = 8, json["tie_word_embeddings"] = true, json["vocab_size"] = 10;
  return json;
}

// All but the experts.
Shard around_experts() {
  Shard s;
  const std::string l = layer;
  s.add("model.embed_tokens.weight", {10, dim}), s.add("model.norm.weight", {dim});
  s.add(l + "input_layernorm.weight", {dim}), s.add(l + "post_attention_layernorm.weight", {dim});
  s.add(l + "self_attn.q_proj.weight", {32, dim}), s.add(l + "self_attn.k_proj.weight", {16, dim});
  s.add(l + "self_attn.v_proj.weight", {16, dim}), s.add(l + "self_attn.o_proj.weight", {dim, 32});
  s.add(l + "self_attn.q_norm.weight", {8}), s.add(l + "self_attn.k_norm.weight", {8});
  s.add(l + "mlp.gate.weight", {experts, dim}, 7);
  return s;
}
std::string of_expert(index e, const char* part) {
  return layer + ("mlp.experts." + std::to_string(e)) + "." + part + "_proj.weight";
}
constexpr float gate_begins = 1000, up_begins = 20000, down_begins = 40000, an_expert = 3000;
Shard with_each_expert() {
  Shard s = around_experts();
  for (index e = experts - 1; e >= 0; --e) {  // whatever the order
    const float first = an_expert * static_cast<float>(e);
    s.add(of_expert(e, "down"), {dim, hidden}, down_begins + first);
    s.add(of_expert(e, "gate"), {hidden, dim}, gate_begins + first);
    s.add(of_expert(e, "up"), {hidden, dim}, up_begins + first);
  }
  return s;
}

void expect_numbers(const ModelFile& file, const char* name, float first, index rows) {
  const WeightTensor* tensor = file.find(name);
  ASSERT_NE(tensor, nullptr) << name;
  EXPECT_EQ(tensor->rank, 3);
  EXPECT_EQ(tensor->rows(), experts * rows);
  std::vector<float> row;
  for (index e = 0; e < experts; ++e)
    for (index r = 0; r < rows; ++r) {
      ASSERT_TRUE(file.read_row(*tensor, e * rows + r, row));
      for (std::size_t i = 0; i < row.size(); ++i)
        ASSERT_EQ(row[i], first + an_expert * static_cast<float>(e) +
                              static_cast<float>(r * static_cast<index>(row.size())) + static_cast<float>(i))
            << name << ", expert " << e << ", row " << r;
    }
}
void expect_experts(const ModelFile& file) {
  expect_numbers(file, "blk.0.ffn_gate_exps.weight", gate_begins, hidden);
  expect_numbers(file, "blk.0.ffn_up_exps.weight", up_begins, hidden);
  expect_numbers(file, "blk.0.ffn_down_exps.weight", down_begins, dim);
}

TEST(experts, single_ones_are_put_together) {
  const TemporaryDirectory d;
  const auto file = load_checkpoint(d, with_each_expert(), mixture_config());
  ASSERT_TRUE(file) << file.error().message();
  expect_experts(*file);
}

// As transformers 5 keeps them, and Granite stores them: gate above up.
TEST(experts, those_of_all_are_cut) {
  for (const bool granite : {false, true}) {
    Shard s = around_experts();
    const auto put = [&](const std::string& name, index rows, std::vector<float> begins) {
      const std::size_t begin = s.data.size();
      for (index e = 0; e < experts; ++e)
        for (const float first : begins)
          for (index i = 0; i < hidden * dim; ++i) {
            const float value = first + an_expert * static_cast<float>(e) + static_cast<float>(i);
            s.data.append(reinterpret_cast<const char*>(&value), sizeof(value));
          }
      s.header[layer + name] = {
          {"dtype", "F32"}, {"shape", {experts, rows, dim}}, {"data_offsets", {begin, s.data.size()}}};
    };
    put(granite ? "block_sparse_moe.input_linear.weight" : "mlp.experts.gate_up_proj", 2 * hidden,
        {gate_begins, up_begins});
    put(granite ? "block_sparse_moe.output_linear.weight" : "mlp.experts.down_proj", dim, {down_begins});
    const TemporaryDirectory d;
    const auto file = load_checkpoint(d, s, mixture_config());
    ASSERT_TRUE(file) << file.error().message();
    expect_experts(*file);
    ASSERT_TRUE(write_gguf(*file, d / "m.gguf"));
    const auto again = load_model(d / "m.gguf");
    ASSERT_TRUE(again) << again.error().message();
    expect_experts(*again);
  }
}

TEST(experts, tensors_that_do_not_fit_are_refused) {
  const auto wrong = [](StatusCode code, const std::function<void(Shard&)>& change,
                        std::initializer_list<const char*> words) {
    Shard s = with_each_expert();
    change(s);
    const TemporaryDirectory d;
    const auto file = load_checkpoint(d, s, mixture_config());
    ASSERT_FALSE(file.has_value());
    expect_refused(file.error(), code, words);
  };
  wrong(StatusCode::not_found, [](Shard& s) { s.header.erase(of_expert(1, "up")); },
        {"blk.0.ffn_up_exps.weight", "expert 1", "missing"});
  wrong(StatusCode::not_found,
        [](Shard& s) {
          for (index e = 0; e < experts; ++e) s.header.erase(of_expert(e, "down"));
        },
        {"blk.0.ffn_down_exps.weight", "missing"});
  wrong(StatusCode::corrupt_data,
        [](Shard& s) {
          s.add(of_expert(3, "up"), {hidden, dim});
        },
        {"experts.3.up_proj", "there are 3"});
  wrong(StatusCode::corrupt_data,
        [](Shard& s) {
          s.header.erase(of_expert(2, "gate"));
          s.add(of_expert(2, "gate"), {hidden, dim + 1});
        },
        {"blk.0.ffn_gate_exps.weight", "expert 2", "[32, 33]"});
  wrong(StatusCode::corrupt_data,
        [](Shard& s) {
          for (index e = 0; e < experts; ++e) {
            s.header.erase(of_expert(e, "gate"));
            s.add(of_expert(e, "gate"), {hidden + 1, dim});
          }
        },
        {"blk.0.ffn_gate_exps.weight", "[3, 33, 32]", "[3, 32, 32]"});
  wrong(StatusCode::corrupt_data,
        [](Shard& s) {
          s.add(layer + std::string("mlp.experts.gate_up_proj"), {experts, 7, dim});
        },
        {"gate_up_proj", "[3, 7, 32]", "even"});
  wrong(StatusCode::corrupt_data,
        [](Shard& s) {
          s.add(layer + std::string("mlp.experts.down_proj"), {2, dim, hidden});
        },
        {"down_proj", "[2, 32, 32]", "3"});
  wrong(StatusCode::corrupt_data,
        [](Shard& s) {
          s.add(layer + std::string("mlp.experts.down_proj"), {experts, dim, hidden});
        },
        {"two tensors", "down_proj"});
  wrong(StatusCode::corrupt_data,
        [](Shard& s) {
          s.add(layer + std::string("block_sparse_moe.experts.1.w3.weight"), {hidden, dim});
        },
        {"two tensors", "experts.1."});
  wrong(StatusCode::unsupported,
        [](Shard& s) {
          s.add(layer + std::string("mlp.up_proj.weight"), {64, dim});
        },
        {"blk.0.ffn_up.weight", "no place"});
}

// GLM-4.5 has a layer behind the last, which drafts tokens.
TEST(experts, layers_behind_the_last_are_left_out) {
  Json json = config_of("glm4_moe", 1);
  json["n_routed_experts"] = experts, json["num_experts_per_tok"] = 2, json["moe_intermediate_size"] = hidden;
  json["vocab_size"] = 10, json["first_k_dense_replace"] = 0, json["num_nextn_predict_layers"] = 1;
  json["tie_word_embeddings"] = true;
  Shard s = with_each_expert();
  const std::string l = layer;
  s.header.erase(l + "self_attn.q_norm.weight"), s.header.erase(l + "self_attn.k_norm.weight");
  s.add(l + "mlp.gate.e_score_correction_bias", {experts});
  for (const char* part : {"gate", "up", "down"})
    s.add(l + "mlp.shared_experts." + part + "_proj.weight", {hidden, dim});
  s.add("model.layers.1.eh_proj.weight", {dim, 2 * dim});
  s.add("model.layers.1.mlp.experts.0.up_proj.weight", {hidden, dim});
  const TemporaryDirectory d;
  const auto file = load_checkpoint(d, s, json);
  ASSERT_TRUE(file) << file.error().message();
  expect_experts(*file);
  ASSERT_TRUE(write_gguf(*file, d / "m.gguf"));
  const auto again = load_model(d / "m.gguf");
  ASSERT_TRUE(again) << again.error().message();
  expect_experts(*again);
  EXPECT_NE(again->find("blk.0.ffn_norm.weight"), nullptr);
  const std::string bytes = read_text(d / "m.gguf");
  EXPECT_NE(bytes.find("blk.0.post_attention_norm.weight"), std::string::npos);  // as others call it in this family
  EXPECT_EQ(bytes.find("ffn_norm"), std::string::npos);
  json["model_type"] = "qwen3_moe", json.erase("n_routed_experts"), json.erase("first_k_dense_replace");
  json.erase("num_nextn_predict_layers"), json["num_experts"] = experts;
  const auto refused = load_checkpoint(d, s, json);
  ASSERT_FALSE(refused.has_value());
}

}  // namespace
}  // namespace inlay::exec::test
