// Latent attention in files: what the keys of config.json and of GGUF say, and tensors of both generations of GGUF.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/ggml_quantize.hpp>
#include <inlay/model/convert.hpp>
#include <inlay/model/load.hpp>

#include "executor/model/gguf/gguf.hpp"
#include "executor/model/gguf/model.hpp"
#include "executor/model/gguf/vocabulary.hpp"
#include "executor/model/gguf/writer.hpp"
#include "tests/model/support/hf_config.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/model/support/unchecked_gguf.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::expect_refused;
using Pairing = RopeConfig::Pairing;

// The keys of all heads, and in V2 those that have no default.
Json latent_config(const std::string& architecture) {
  Json json = config_of(architecture);
  json["num_key_value_heads"] = 4;
  if (architecture == "deepseek_v2") json["num_experts_per_tok"] = 2;
  return json;
}

// The keys of Kimi K2's file, and of its text in Kimi K2.5's.
TEST(latent, kimi_k2) {
  Json json = latent_config("kimi_k2");
  json["n_routed_experts"] = 384, json["n_group"] = 1, json["topk_group"] = 1, json["routed_scaling_factor"] = 2.827;
  json["scoring_func"] = "sigmoid", json["topk_method"] = "noaux_tc", json["norm_topk_prob"] = true;
  json["moe_layer_freq"] = 1, json["seq_aux"] = true, json["aux_loss_alpha"] = 0.001, json["ep_size"] = 1;
  json["num_nextn_predict_layers"] = 0, json["first_k_dense_replace"] = 1, json["pretraining_tp"] = 1;
  const ExpertsConfig wanted{.count = 384,
                             .top_k = 8,
                             .hidden = 2048,
                             .shared_hidden = 2048,
                             .choice_bias = true,
                             .score = MoeScore::sigmoid,
                             .group_score = MoeGroupScore::best,
                             .renormalize = true,
                             .scale = 2.827};
  json["num_hidden_layers"] = 2;
  EXPECT_EQ(read(json).experts, wanted);
  EXPECT_EQ(read(json).architecture, "kimi_k2");
  const Json whole = {{"model_type", "kimi_k25"}, {"text_config", json}};
  EXPECT_EQ(read(whole).experts, wanted);
}

TEST(latent, keys_and_what_counts_without_them) {
  for (const char* architecture : {"deepseek_v2", "deepseek_v3"}) {
    const ModelConfig config = read(latent_config(architecture));
    EXPECT_EQ(config.latent, (LatentConfig{.kv_rank = 512, .q_rank = 1536, .rope_dim = 64, .value_dim = 128}));
    EXPECT_EQ(config.head_dim, 192);
    EXPECT_EQ(config.value_dim(), 128);
    EXPECT_EQ(config.ropes[0].dim, 64);
    EXPECT_EQ(config.ropes[0].pairing, Pairing::interleaved);
    EXPECT_EQ(config.attn_scale, 0);
  }
  const ModelConfig minicpm = read(latent_config("minicpm3"));
  EXPECT_EQ(minicpm.latent, (LatentConfig{.kv_rank = 256, .q_rank = 768, .rope_dim = 32, .value_dim = 8}));
  EXPECT_EQ(minicpm.ropes[0].pairing, Pairing::half);
  EXPECT_EQ(minicpm.embed_scale, 12);
  EXPECT_DOUBLE_EQ(minicpm.residual_scale, 1.4);
  EXPECT_DOUBLE_EQ(minicpm.logit_scale, 8);
  Json json = latent_config("minicpm3");
  json["scale_depth"] = nullptr, json["dim_model_base"] = nullptr, json["scale_emb"] = 3;
  const ModelConfig unscaled = read(json);
  EXPECT_EQ(unscaled.embed_scale, 3);
  EXPECT_EQ(unscaled.residual_scale, 1);
  EXPECT_EQ(unscaled.logit_scale, 1);

  json = latent_config("deepseek_v3");
  json["q_lora_rank"] = nullptr, json["kv_lora_rank"] = 20, json["qk_nope_head_dim"] = 10;
  json["qk_rope_head_dim"] = 6, json["v_head_dim"] = 7, json["rope_interleave"] = false;
  json["head_dim"] = 6, json["qk_head_dim"] = 16;
  const ModelConfig config = read(json);
  EXPECT_EQ(config.latent, (LatentConfig{.kv_rank = 20, .rope_dim = 6, .value_dim = 7}));
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ropes[0].pairing, Pairing::half);
}

// Of YaRN what turns has the quotient of two magnitudes, and scores the square of one.
TEST(latent, yarn_sharpens_scores) {
  Json json = latent_config("deepseek_v3");
  const auto scaled = [&](double mscale, double all) {
    json["rope_scaling"] = {{"type", "yarn"},
                            {"factor", 40},
                            {"original_max_position_embeddings", 4096},
                            {"mscale", mscale},
                            {"mscale_all_dim", all}};
    return read(json);
  };
  const double sharpened = 0.1 * 0.707 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(scaled(0.707, 0.707).attn_scale, sharpened * sharpened / std::sqrt(192.0));
  EXPECT_DOUBLE_EQ(scaled(0.707, 0.707).ropes[0].attention_factor, 1);
  EXPECT_DOUBLE_EQ(scaled(1, 0.707).ropes[0].attention_factor, (0.1 * std::log(40.0) + 1) / sharpened);
  EXPECT_EQ(scaled(1, 0).attn_scale, 0);
  json = config_of("llama");  // where the whole head turns
  EXPECT_EQ(scaled(0.707, 0.707).attn_scale, 0);
}

TEST(latent, how_experts_are_chosen) {
  Json json = latent_config("deepseek_v2");
  json["n_group"] = 8, json["topk_group"] = 3, json["norm_topk_prob"] = false, json["scoring_func"] = "softmax";
  const auto groups = [&] {
    const ExpertsConfig e = read(json).experts;
    return std::tuple(e.groups, e.groups_kept, e.group_score);
  };
  EXPECT_EQ(groups(), std::tuple(1, 1, MoeGroupScore::best));
  json["topk_method"] = "group_limited_greedy";
  EXPECT_EQ(groups(), std::tuple(8, 3, MoeGroupScore::best));
  json["topk_method"] = "noaux_tc";
  refuse(json, StatusCode::unsupported, {"topk_method", "noaux_tc", "greedy or group_limited_greedy"});
  json["topk_method"] = nullptr, json["norm_topk_prob"] = true;
  refuse(json, StatusCode::unsupported, {"norm_topk_prob", "true"});
  json["norm_topk_prob"] = false, json["scoring_func"] = "sigmoid";
  refuse(json, StatusCode::unsupported, {"scoring_func", "sigmoid"});
  json = latent_config("deepseek_v3"), json["first_k_dense_replace"] = 0;
  json["topk_method"] = "noaux_tc", json["scoring_func"] = "sigmoid";
  EXPECT_EQ(groups(), std::tuple(8, 4, MoeGroupScore::sum_of_two));
  EXPECT_EQ(read(json).experts.scale, 2.5);
}

TEST(latent, layers_that_have_experts_may_be_listed) {
  Json json = config_of("glm4_moe_lite", 3);
  json["num_key_value_heads"] = 4;
  const auto sparse = [&] {
    const ModelConfig config = read(json);
    return std::vector<bool>{config.layer(0).sparse, config.layer(1).sparse, config.layer(2).sparse};
  };
  EXPECT_EQ(sparse(), (std::vector<bool>{false, true, true}));
  json["mlp_layer_types"] = {"sparse", "dense", "sparse"};
  EXPECT_EQ(sparse(), (std::vector<bool>{true, false, true}));
  json["mlp_layer_types"] = {"sparse", "dense"};
  refuse(json, StatusCode::corrupt_data, {"mlp_layer_types", "3"});
  json["mlp_layer_types"] = {"sparse", "dense", "linear"};
  refuse(json, StatusCode::unsupported, {"entry 2", "mlp_layer_types", "linear", "sparse or dense"});
}

TEST(latent, keys_that_do_not_fit_are_refused) {
  const auto with = [](const char* key, const Json& value) {
    Json json = latent_config("deepseek_v3");
    json[key] = value;
    return json;
  };
  refuse(with("num_key_value_heads", 2), StatusCode::unsupported, {"num_key_value_heads", "2", "4"});
  refuse(with("head_dim", 192), StatusCode::corrupt_data, {"head_dim", "192", "64"});
  refuse(with("qk_head_dim", 128), StatusCode::corrupt_data, {"qk_head_dim", "128", "192"});
  refuse(with("kv_lora_rank", 0), StatusCode::corrupt_data, {"kv_lora_rank", "0", "1 to"});
  refuse(with("q_lora_rank", -3), StatusCode::corrupt_data, {"q_lora_rank", "-3", "1 to"});
  refuse(with("qk_nope_head_dim", 0), StatusCode::corrupt_data, {"qk_nope_head_dim", "0", "1 to"});
  refuse(with("v_head_dim", 1 << 20), StatusCode::corrupt_data, {"value head dim", "1048576", "65536"});
  refuse(with("qk_rope_head_dim", 7), StatusCode::corrupt_data, {"rope dimension", "7", "even"});
  refuse(with("attention_bias", true), StatusCode::unsupported, {"attention_bias", "true"});
  Json json = config_of("llama");
  json["kv_lora_rank"] = 20;
  refuse(json, StatusCode::unsupported, {"kv_lora_rank", "20", "llama"});
}

ModelConfig tiny_latent(index q_rank = 24) {
  ModelConfig c = tiny_config("deepseek2");
  c.kv_heads = 4, c.head_dim = 38;
  c.latent = {.kv_rank = 32, .q_rank = q_rank, .rope_dim = 6, .value_dim = 32, .norm_eps = c.norm_eps};
  c.ropes[0] = {.pairing = Pairing::interleaved, .dim = 6};
  return c;
}

// The same model as newer writers have it: k of attn_kv_b as columns of its own tensor, and one kv head.
void write_newer(const ModelFile& file, const std::string& path, GgmlType type,
                 const std::function<void(GgufWriter&)>& more, const std::function<void(std::vector<index>&)>& change) {
  const ModelConfig& c = file.config;
  const index rank = c.latent.kv_rank, value = c.latent.value_dim, nope = c.head_dim - c.latent.rope_dim;
  GgufWriter writer;
  const auto number = [&](const char* key, index each) {
    writer.set(std::string("deepseek2.") + key, static_cast<std::uint32_t>(each));
  };
  writer.set("general.architecture", "deepseek2");
  number("context_length", c.context), number("embedding_length", c.dim), number("block_count", c.layers);
  number("feed_forward_length", c.hidden), number("attention.head_count", c.heads);
  number("attention.key_length", rank + c.latent.rope_dim), number("attention.value_length", rank);
  number("attention.key_length_mla", c.head_dim), number("attention.value_length_mla", value);
  number("attention.kv_lora_rank", rank), number("attention.q_lora_rank", c.latent.q_rank);
  number("rope.dimension_count", c.latent.rope_dim);
  writer.set("deepseek2.attention.layer_norm_rms_epsilon", static_cast<float>(c.norm_eps));
  more(writer);
  write_gguf_vocabulary(file.tokenizer, c.vocab, writer);
  const auto row_of = [&](const float* floats, index n, std::byte* out) { quantize_row(type, floats, n, out); };
  for (const WeightTensor& t : file.tensors()) {
    const auto* all = reinterpret_cast<const float*>(t.data);
    if (t.name != "blk.0.attn_kv_b.weight") {
      writer.tensor(t.name, GgmlType::F32, {t.extents.data(), static_cast<std::size_t>(t.rank)},
                    [&t](index row, std::byte* out) {
                      std::memcpy(out, t.data + row * t.row_size() * 4, static_cast<std::size_t>(t.row_size()) * 4);
                      return Status{};
                    });
      continue;
    }
    std::vector<index> k = {c.heads, rank, nope};
    change(k);
    writer.tensor("blk.0.attn_k_b.weight", type, k, [=](index row, std::byte* out) {
      std::vector<float> floats;
      for (index i = 0; i < nope; ++i) floats.push_back(all[(row / rank * (nope + value) + i) * rank + row % rank]);
      row_of(floats.data(), nope, out);
      return Status{};
    });
    const index v[] = {c.heads, value, rank};
    writer.tensor("blk.0.attn_v_b.weight", type, v, [=](index row, std::byte* out) {
      row_of(all + (row / value * (nope + value) + nope + row % value) * rank, rank, out);
      return Status{};
    });
  }
  const Status status = writer.write(path);
  ASSERT_TRUE(status) << status.message();
}

const auto one_kv_head = [](GgufWriter& writer) { writer.set("deepseek2.attention.head_count_kv", 1u); };
const auto as_it_is = [](std::vector<index>&) {};

TEST(latent, gguf_of_both_generations_is_the_same_model) {
  for (const index q_rank : {index{24}, index{0}}) {
    const TinyModel from = tiny_model(tiny_latent(q_rank));
    const TemporaryDirectory d;
    const auto report = write_gguf(from.file, d / "older.gguf");
    ASSERT_TRUE(report) << report.error().message();
    if (q_rank > 0) write_newer(from.file, d / "newer.gguf", GgmlType::F32, one_kv_head, as_it_is);
    for (const char* name : {"older.gguf", "newer.gguf"}) {
      if (q_rank == 0 && std::string_view(name) == "newer.gguf") continue;
      SCOPED_TRACE(name);
      const auto file = load_model(d / name);
      ASSERT_TRUE(file) << file.error().message();
      EXPECT_EQ(file->config.kv_heads, 4);
      EXPECT_EQ(file->config.head_dim, 38);
      EXPECT_EQ(file->config.latent.q_rank, q_rank);
      EXPECT_EQ(file->config.latent.value_dim, 32);
      EXPECT_EQ(file->tensors().size(), from.file.tensors().size());
      for (const WeightTensor& each : from.file.tensors()) {
        const WeightTensor* same = file->find(each.name);
        ASSERT_NE(same, nullptr) << each.name;
        ASSERT_EQ(same->extents, each.extents) << each.name;
        EXPECT_EQ(std::memcmp(same->data, each.data, static_cast<std::size_t>(each.bytes)), 0) << each.name;
      }
    }
  }
}

// Each block is read along its own rows, before they become columns.
TEST(latent, gguf_of_blocks) {
  const TinyModel from = tiny_model(tiny_latent());
  const TemporaryDirectory d;
  write_newer(from.file, d / "m.gguf", GgmlType::Q8_0, one_kv_head, as_it_is);
  const auto file = load_model(d / "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
  const WeightTensor &got = *file->find("blk.0.attn_kv_b.weight"), &expected = *from.file.find(got.name);
  EXPECT_EQ(got.type, GgmlType::F32);
  const auto *a = reinterpret_cast<const float*>(got.data), *b = reinterpret_cast<const float*>(expected.data);
  for (index i = 0; i < got.size(); ++i) ASSERT_NEAR(a[i], b[i], 0.01) << i;
}

TEST(latent, gguf_that_does_not_fit_is_refused) {
  const TinyModel from = tiny_model(tiny_latent());
  const auto wrong = [&](const std::function<void(GgufWriter&)>& more,
                         const std::function<void(std::vector<index>&)>& change, StatusCode code,
                         std::initializer_list<const char*> words) {
    const TemporaryDirectory d;
    write_newer(from.file, d / "m.gguf", GgmlType::F32, more, change);
    const auto file = load_model(d / "m.gguf");
    ASSERT_FALSE(file.has_value());
    expect_refused(file.error(), code, words);
  };
  wrong([](GgufWriter& writer) { writer.set("deepseek2.attention.head_count_kv", 4u); }, as_it_is,
        StatusCode::corrupt_data, {"head_count_kv", "4", "1"});
  wrong(one_kv_head, [](std::vector<index>& k) { k[0] = 8, k[1] = 16; }, StatusCode::corrupt_data,
        {"attn_k_b", "[8, 16, 32]", "[4, 32, 32]"});
  const auto yarn = [](GgufWriter& writer) {
    one_kv_head(writer);
    writer.set("deepseek2.rope.scaling.type", "yarn"), writer.set("deepseek2.rope.scaling.factor", 4.f);
  };
  wrong(yarn, as_it_is, StatusCode::not_found, {"yarn_log_multiplier"});
  // Another family has no such key.
  const TemporaryDirectory d;
  write_unchecked(tiny_model("qwen2").file, d / "m.gguf",
                  [](GgufWriter& writer) { writer.set("qwen2.rope.scaling.yarn_log_multiplier", 0.1f); });
  const auto file = load_model(d / "m.gguf");
  ASSERT_FALSE(file.has_value());
  expect_refused(file.error(), StatusCode::unsupported, {"yarn_log_multiplier", "0.1"});
}

// MiniCPM3's files leave out its scales, of which readers know those of one model, and the length of values.
TEST(latent, gguf_of_minicpm3) {
  GgufWriter writer;
  const auto number = [&](const char* key, std::uint32_t each) { writer.set(std::string("minicpm3.") + key, each); };
  writer.set("general.architecture", "minicpm3");
  number("context_length", 64), number("embedding_length", 128), number("block_count", 4);
  number("feed_forward_length", 80), number("attention.head_count", 4), number("attention.head_count_kv", 4);
  number("attention.key_length", 20), number("attention.kv_lora_rank", 12), number("attention.q_lora_rank", 24);
  number("rope.dimension_count", 6);
  writer.set("minicpm3.attention.layer_norm_rms_epsilon", 1e-5f);
  const std::string head = writer.head();
  const auto file = GgufFile::parse(Mapping::borrow(std::as_bytes(std::span(head))), "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
  const auto config = read_gguf_keys(*file);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->head_dim, 20);
  EXPECT_EQ(config->latent,
            (LatentConfig{.kv_rank = 12, .q_rank = 24, .rope_dim = 6, .value_dim = 32, .norm_eps = 1e-5f}));
  EXPECT_EQ(config->embed_scale, 12);
  EXPECT_DOUBLE_EQ(config->residual_scale, 0.7);
  EXPECT_DOUBLE_EQ(config->logit_scale, 2);
  EXPECT_EQ(config->ropes[0].pairing, Pairing::half);

  ModelConfig c = tiny_latent();
  c.architecture = "minicpm3", c.ropes[0].pairing = Pairing::half;
  c.embed_scale = 12, c.residual_scale = 1.4, c.logit_scale = 8;
  EXPECT_TRUE(write_gguf(tiny_model(c).file, TemporaryDirectory() / "m.gguf"));
  c.logit_scale = 4;
  const auto refused = write_gguf(tiny_model(c).file, TemporaryDirectory() / "m.gguf");
  ASSERT_FALSE(refused);
  expect_refused(refused.error(), StatusCode::unsupported, {"scale of embeddings", "minicpm3"});
}

// Whatever a byte of the head becomes, what is read lies in the file.
TEST(latent, damaged_gguf_is_survived) {
  const TinyModel from = tiny_model(tiny_latent());
  const TemporaryDirectory d;
  write_newer(from.file, d / "m.gguf", GgmlType::Q8_0, one_kv_head, as_it_is);
  const std::string text = read_text(d / "m.gguf");
  const auto whole = std::as_bytes(std::span(text));
  std::vector<std::byte> bytes(whole.begin(), whole.end());
  const std::size_t head = text.find("blk.0.ffn_down.weight");  // the keys, and the tensors up to those of attention
  ASSERT_NE(head, std::string::npos);
  const std::size_t begin = text.find("deepseek2.context_length"), keys = text.find("tokenizer.ggml");
  const std::size_t tensors = text.find("blk.0.attn_k_b.weight");
  ASSERT_LT(begin, keys);
  int refused = 0;
  for (const auto& [first, last] : {std::pair{begin, keys}, {tensors, head}})
    for (std::size_t at = first; at < last; ++at)
      for (const unsigned change : {0x01u, 0x20u, 0x80u, 0xffu}) {
        const std::byte before = std::exchange(bytes[at], bytes[at] ^ static_cast<std::byte>(change));
        const auto file = GgufFile::parse(Mapping::borrow(bytes), "broken.gguf");
        refused += !file || !gguf_model(*file);
        bytes[at] = before;
      }
  EXPECT_GT(refused, 1000);
}

// The score's share of YaRN has a key; a magnitude of what turns has none, nor have norms an eps of their own.
TEST(latent, gguf_of_yarn) {
  ModelConfig c = tiny_latent();
  RopeConfig& rope = c.ropes[0];
  rope.scaling = RopeConfig::Scaling::yarn, rope.factor = 4, rope.original_context = 16, rope.attention_factor = 1;
  const double sharpened = 0.0707 * std::log(4.0) + 1;
  c.attn_scale = sharpened * sharpened / std::sqrt(38.0);
  const auto written = [&](const TemporaryDirectory& d) { return write_gguf(tiny_model(c).file, d / "m.gguf"); };
  for (const double scale : {c.attn_scale, 0.0}) {
    c.attn_scale = scale;
    const TemporaryDirectory d;
    ASSERT_TRUE(written(d)) << written(d).error().message();
    const auto file = load_model(d / "m.gguf");
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_NEAR(file->config.attn_scale, scale == 0 ? 1 / std::sqrt(38.0) : scale, 1e-7);
    EXPECT_EQ(file->config.ropes[0].attention_factor, 1);
  }
  const TemporaryDirectory d;
  c.latent.norm_eps = 1e-3;
  auto refused = written(d);
  ASSERT_FALSE(refused);
  expect_refused(refused.error(), StatusCode::unsupported, {"latent attention", "eps"});
}

}  // namespace
}  // namespace inlay::exec::test
