// GGUF's keys: what is written is read back, what they cannot say is refused, and so is what we cannot read.
#include <inlay/model/load.hpp>
#include <inlay/model/model_ropes.hpp>

#include "tests/model/support/tiny_model.hpp"
#include "tests/model/support/unchecked_gguf.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::expect_refused;

template <class T> Status status_of(const Expected<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? Status{} : Status(result.error().code(), std::string(result.error().message()));
}

constexpr double theta = 1e4, windowed_theta = 1e3;

// Layers of rope 1 turn by windowed_theta.
ModelConfig layered(const std::string& arch, std::vector<LayerConfig> layers) {
  ModelConfig c = tiny_config(arch);
  c.ropes = {c.ropes[0], c.ropes[0]};
  c.ropes[0].theta = theta, c.ropes[1].theta = windowed_theta;
  c.layers = static_cast<index>(layers.size());
  c.set_layers(std::move(layers));
  return c;
}

TEST(gguf_config, layers_that_differ_come_back) {
  const TemporaryDirectory d;
  const std::vector<std::vector<LayerConfig>> cases = {{{32, 0, 0}, {64, 0, 0}, {32, 0, 0}},  // widths
                                                       {{32, 0, 0}, {32, 5, 0}, {32, 5, 0}},  // windows
                                                       {{32, 5, 1}, {32, 0, 0}, {32, 5, 1}},  // and their theta
                                                       {{32, 5, 1}, {64, 0, 0}, {96, 5, 1}},
                                                       {{48, 5, 0}, {32, 5, 0}, {32, 5, 0}},  // all have the window
                                                       {{48, 5, 0}, {32, 5, 0}}};
  for (const char* arch : {"llama", "qwen2", "qwen3"})
    for (const auto& layers : cases) {
      const TinyModel from = tiny_model(layered(arch, layers));
      ASSERT_EQ(from.file.config.per_layer, layers);
      const auto report = write_gguf(from.file, d / "m.gguf");
      ASSERT_TRUE(report) << report.error().message();
      const auto to = load_model(d / "m.gguf");
      ASSERT_TRUE(to) << to.error().message();
      EXPECT_EQ(to->config.per_layer, layers);
      EXPECT_EQ(to->config.ropes, from.file.config.ropes);
      EXPECT_EQ(to->config.hidden, from.file.config.hidden);
      EXPECT_EQ(to->config.sliding_window, from.file.config.sliding_window);
    }
}

TEST(gguf_config, layers_that_are_alike_need_no_lists) {
  const TemporaryDirectory d;
  for (const index window : {0, 7}) {
    const TinyModel from = tiny_model(layered("llama", {{32, window, 1}, {32, window, 1}}));
    ASSERT_TRUE(write_gguf(from.file, d / "m.gguf"));
    const auto to = load_model(d / "m.gguf");
    ASSERT_TRUE(to) << to.error().message();
    EXPECT_TRUE(to->config.per_layer.empty());
    EXPECT_EQ(to->config.sliding_window, window);
    ASSERT_EQ(to->config.ropes.size(), 1u);
    EXPECT_EQ(to->config.ropes[0].theta, windowed_theta);
  }
}

TEST(gguf_config, what_gguf_has_no_form_for_is_refused_and_leaves_no_file) {
  const TemporaryDirectory d;
  const auto refuse = [&](std::vector<LayerConfig> layers, std::initializer_list<const char*> words) {
    const TinyModel tiny = tiny_model(layered("llama", std::move(layers)));
    expect_refused(status_of(write_gguf(tiny.file, d / "m.gguf")), StatusCode::unsupported, words);
    EXPECT_TRUE(std::filesystem::is_empty(d.string()));
  };
  refuse({{32, 5, 0}, {32, 9, 0}}, {"layer 0", "window of 5", "9"});
  refuse({{32, 0, 0}, {32, 0, 1}}, {"layer 1", "theta"});
  refuse({{32, 5, 1}, {32, 5, 0}, {32, 0, 0}}, {"layer 1", "theta"});
}

TEST(gguf_config, yarn_comes_back_whole) {
  const TemporaryDirectory d;
  for (const bool truncate : {true, false}) {
    TinyModel from = tiny_model("qwen2");
    RopeConfig& rope = from.file.config.ropes[0];
    rope.scaling = RopeConfig::Scaling::yarn, rope.factor = 8, rope.original_context = 32;
    rope.truncate = truncate;
    rope.attention_factor = (0.0707 * std::log(8.0) + 1) / (0.12 * std::log(8.0) + 1);  // mscale 0.707, all_dim 1.2
    const auto report = write_gguf(from.file, d / "m.gguf");
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->notes.size(), truncate ? 0u : 1u);  // other readers do not know the key
    const auto to = load_model(d / "m.gguf");
    ASSERT_TRUE(to) << to.error().message();
    EXPECT_EQ(to->config.ropes[0].truncate, truncate);
    EXPECT_NEAR(to->config.ropes[0].attention_factor, rope.attention_factor, 1e-6);
    EXPECT_EQ(to->config.ropes[0].factor, 8);
  }
}

TEST(gguf_config, keys_that_change_the_numbers_are_read_or_refused) {
  const TemporaryDirectory d;
  const TinyModel tiny = tiny_model(layered("llama", {{32, 0, 0}, {32, 0, 0}, {32, 0, 0}}));
  const auto load_with = [&](const std::function<void(GgufWriter&)>& more) {
    write_unchecked(tiny.file, d / "m.gguf", more);
    return load_model(d / "m.gguf");
  };
  const auto refuse = [&](const std::string& key, const auto& value, StatusCode code,
                          std::initializer_list<const char*> words) {
    const Status status = status_of(load_with([&](GgufWriter& writer) { writer.set(key, value); }));
    expect_refused(status, code, words);
    expect_refused(status, code, {key.c_str()});
  };
  using enum StatusCode;
  refuse("llama.logit_scale", 2.0f, unsupported, {"2.0", "1.0"});
  refuse("llama.attn_logit_softcapping", 30.0f, unsupported, {"30"});
  refuse("llama.rope.scaling.yarn_ext_factor", 0.5f, unsupported, {"0.5"});
  refuse("llama.attention.causal", false, unsupported, {"true"});
  refuse("llama.attention.sliding_window_pattern", std::uint32_t{6}, unsupported, {"array"});
  const std::vector<std::int32_t> two = {1, 0}, three = {1, 0, 1}, none;
  refuse("llama.attention.sliding_window_pattern", std::span<const std::int32_t>(two), corrupt_data, {"2", "3"});
  refuse("llama.attention.sliding_window_pattern", std::span<const std::int32_t>(none), corrupt_data, {"0"});
  const Status yarn = status_of(load_with([](GgufWriter& writer) {  // what is loaded can run
    writer.set("llama.rope.scaling.type", "yarn");
    writer.set("llama.rope.scaling.factor", 4.0f);
    writer.set("llama.rope.scaling.original_context_length", std::uint32_t{0});
  }));
  expect_refused(yarn, corrupt_data, {"rope", "original_context", "0"});
  EXPECT_TRUE(load_with([](GgufWriter& writer) { writer.set("llama.logit_scale", 1.0f); }));
  EXPECT_TRUE(load_with([](GgufWriter& writer) { writer.set("llama.attention.causal", true); }));
  const auto windowed = load_with([&](GgufWriter& writer) {  // some writers have integers for booleans
    writer.set("llama.attention.sliding_window", std::uint32_t{4});
    writer.set("llama.attention.sliding_window_pattern", std::span<const std::int32_t>(three));
  });
  ASSERT_TRUE(windowed) << windowed.error().message();
  EXPECT_EQ(windowed->config.layer(0).window, 4);
  EXPECT_EQ(windowed->config.layer(1).window, 0);
}

// It multiplies cos and sin whatever the type of scaling is, none too.
TEST(gguf_config, attn_factor_counts_in_every_type) {
  const TemporaryDirectory d;
  for (const char* type : {"", "none", "linear", "yarn"}) {
    SCOPED_TRACE(type);
    const TinyModel tiny = tiny_model("qwen2");
    write_unchecked(tiny.file, d / "m.gguf", [&](GgufWriter& writer) {
      if (*type) writer.set("qwen2.rope.scaling.type", type);
      if (*type == 'l' || *type == 'y') writer.set("qwen2.rope.scaling.factor", 4.0f);
      writer.set("qwen2.rope.scaling.attn_factor", 2.0f);
    });
    const auto file = load_model(d / "m.gguf");
    ASSERT_TRUE(file) << file.error().message();
    const double expected = *type == 'y' ? 2 * (0.1 * std::log(4.0) + 1) : 2;
    EXPECT_DOUBLE_EQ(file->config.ropes[0].attention_factor, expected);
    const auto frequencies = frequencies_of(file->config.ropes[0], 64);
    ASSERT_TRUE(frequencies) << frequencies.error().message();
    EXPECT_FLOAT_EQ(frequencies->magnitude, static_cast<float>(expected));
    ASSERT_TRUE(write_gguf(*file, d / "again.gguf"));
    EXPECT_NEAR(load_model(d / "again.gguf")->config.ropes[0].attention_factor, expected, 1e-6);
  }
}

// One cache has one shape.
TEST(gguf_config, kv_heads_of_each_layer_are_refused) {
  const TemporaryDirectory d;
  const std::vector<std::int32_t> same = {2, 2}, different = {2, 1};
  for (const auto& heads : {same, different}) {
    GgufWriter writer;
    writer.set("general.architecture", "llama");
    for (const auto& [key, value] : {std::pair("block_count", 2u),
                                     {"embedding_length", 32u},
                                     {"context_length", 64u},
                                     {"feed_forward_length", 32u},
                                     {"attention.head_count", 4u}})
      writer.set("llama." + std::string(key), static_cast<std::uint32_t>(value));
    writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.set("llama.attention.head_count_kv", std::span<const std::int32_t>(heads));
    const std::array<index, 2> extents = {1, 32};
    writer.tensor("token_embd.weight", GgmlType::F32, extents, [](index, std::byte* out) {
      std::memset(out, 0, 32 * sizeof(float));
      return Status{};
    });
    ASSERT_TRUE(writer.write(d / "m.gguf"));
    const auto file = GgufFile::open(d / "m.gguf");
    ASSERT_TRUE(file) << file.error().message();
    const auto config = read_gguf_config(*file);
    if (heads == same)
      EXPECT_EQ(config->kv_heads, 2);
    else
      expect_refused(status_of(config), StatusCode::unsupported, {"'llama.attention.head_count_kv'", "layers"});
  }
}

// Before the rows of fused tensors are counted by them.
TEST(gguf_config, sizes_are_checked_before_tensors_are_cut) {
  const auto refused = [](std::uint32_t hidden, std::uint32_t heads, std::initializer_list<const char*> words) {
    GgufWriter writer;
    writer.set("general.architecture", "llama");
    for (const auto& [key, value] : {std::pair("block_count", 1u),
                                     {"embedding_length", 32u},
                                     {"context_length", 64u},
                                     {"feed_forward_length", hidden},
                                     {"attention.head_count", heads},
                                     {"attention.key_length", heads}})
      writer.set("llama." + std::string(key), value);
    writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.set("tokenizer.ggml.model", "none");
    for (const char* name : {"token_embd.weight", "blk.0.ffn_up.weight", "blk.0.attn_qkv.weight"}) {
      const std::array<index, 2> extents = {*name == 't' ? 1 : 0, 32};
      writer.tensor(name, GgmlType::F32, extents, [](index, std::byte* out) {
        std::memset(out, 0, 32 * sizeof(float));
        return Status{};
      });
    }
    const TemporaryDirectory d;
    ASSERT_TRUE(writer.write(d / "m.gguf"));
    expect_refused(status_of(load_model(d / "m.gguf")), StatusCode::corrupt_data, words);
  };
  refused(0, 4, {"m.gguf", "hidden is 0", "1 to"});
  refused(32, ~0u, {"m.gguf", "heads is 4294967295", "1 to"});
}

TEST(gguf_config, unknown_tensors_are_refused_by_name) {
  const TemporaryDirectory d;
  const auto extra = [](const char* name) {
    return tiny_model(tiny_config(), {{.name = name, .rank = 1, .extents = {4}}});
  };
  for (const char* name : {"blk.0.attn_sinks.weight", "blk.0.attn_q.bias", "blk.0.ffn_gate.bias", "blk.1.attn_q.weight",
                           "blk.0.attn_q.weight.scale", "rope_freqs.bias"}) {
    const TinyModel tiny = extra(name);
    write_unchecked(tiny.file, d / "m.gguf");
    const Status loaded = status_of(load_model(d / "m.gguf"));
    EXPECT_NE(loaded.message().find(name), std::string_view::npos) << loaded.message();
    std::filesystem::remove(d / "m.gguf");
    const Status written = status_of(write_gguf(tiny.file, d / "m.gguf"));
    expect_refused(written, StatusCode::unsupported, {name, "'llama'"});
    EXPECT_TRUE(std::filesystem::is_empty(d.string()));
  }
  const TinyModel old = extra("blk.0.attn_rot_embd.weight");  // says what the configuration says
  write_unchecked(old.file, d / "m.gguf");
  const auto file = load_model(d / "m.gguf");
  EXPECT_TRUE(file) << file.error().message();
}

}  // namespace
}  // namespace inlay::exec::test
