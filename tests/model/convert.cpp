// Conversion: what goes in comes out, within what the target format can hold.
#include <inlay/model/convert.hpp>
#include <inlay/model/load.hpp>
#include <inlay/text/tokenizer.hpp>

#include "tests/model/support/tiny_model.hpp"
#include "tests/support/ggml_blocks.hpp"

namespace inlay::exec::test {
namespace {

std::vector<float> values(const ModelFile& file, const std::string& name) {
  const WeightTensor* t = file.find(name);
  EXPECT_NE(t, nullptr) << name;
  std::vector<float> all, row;
  const index k = t->extents[static_cast<std::size_t>(t->rank - 1)];
  for (index r = 0; r < t->size() / k; ++r) {
    EXPECT_TRUE(file.read_row(*t, r, row));
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

void expect_same_config(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.dim, b.dim);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.vocab, b.vocab);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(static_cast<float>(a.norm_eps), static_cast<float>(b.norm_eps));
  EXPECT_EQ(a.tie_embeddings, b.tie_embeddings);
  EXPECT_EQ(a.qkv_bias, b.qkv_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.ropes[0].dim, b.ropes[0].dim);
  EXPECT_EQ(a.ropes[0].theta, b.ropes[0].theta);
  EXPECT_EQ(a.ropes[0].freq_factors, b.ropes[0].freq_factors);
}

TEST(convert, llama2c) {
  INLAY_NEEDS_DATA("stories260K/");
  const std::string place = shared_data + "stories260K/";
  const TemporaryDirectory d;
  const auto report = convert_llama2c(place + "stories260K.bin", place + "tok512.bin", d / "m.gguf");
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(report->notes.empty());
  const auto from = load_llama2c(place + "stories260K.bin", place + "tok512.bin");
  const auto to = load_model(d / "m.gguf");
  ASSERT_TRUE(to) << to.error().message();
  expect_same_config(to->config, from->config);
  EXPECT_EQ(to->config.kv_heads, 4);
  EXPECT_EQ(to->config.hidden, 172);
  EXPECT_EQ(to->config.ropes[0].pairing, RopeConfig::Pairing::interleaved);
  EXPECT_TRUE(to->config.tie_embeddings);
  ASSERT_EQ(to->tensors().size(), from->tensors().size());
  for (const WeightTensor& t : from->tensors()) {
    EXPECT_EQ(to->find(t.name)->type, GgmlType::F32);
    EXPECT_EQ(values(*to, t.name), values(*from, t.name)) << t.name;
  }
  EXPECT_EQ(to->tokenizer.tokens, from->tokenizer.tokens);
  EXPECT_EQ(to->tokenizer.scores, from->tokenizer.scores);
  EXPECT_EQ(to->tokenizer.types, from->tokenizer.types);
  // 172 columns do not divide into blocks of 32: said, and kept as F16.
  const auto q4 = convert(d / "m.gguf", d / "q.gguf", {WeightFormat::q4_0});
  ASSERT_TRUE(q4);
  EXPECT_EQ(q4->notes.size(), 5u);
  EXPECT_EQ(load_model(d / "q.gguf")->find("blk.0.ffn_down.weight")->type, GgmlType::F16);
}

TEST(convert, refuses_broken_llama2c) {
  INLAY_NEEDS_DATA("stories260K/");
  const std::string place = shared_data + "stories260K/";
  const TemporaryDirectory d;
  const std::string good = read_text(place + "stories260K.bin"), tokens = read_text(place + "tok512.bin");
  const auto refuse = [&](const std::string& model, const std::string& tokenizer, const char* word) {
    write_text(d / "m.bin", model), write_text(d / "t.bin", tokenizer);
    const auto file = load_llama2c(d / "m.bin", d / "t.bin");
    ASSERT_FALSE(file) << word;
    EXPECT_NE(file.error().message().find(word), std::string_view::npos) << file.error().message();
  };
  for (const std::size_t size : {0u, 1u, 27u}) refuse(good.substr(0, size), tokens, "header");
  for (const std::size_t size : {28u, 1000u, 400000u}) refuse(good.substr(0, size), tokens, "ends within");
  refuse(good + "x", tokens, "1 bytes follow");
  refuse("24ka" + good, tokens, "version");
  for (int field = 0; field < 7; ++field)
    for (const std::int32_t value : {0, -1, 2147483647}) {
      std::string bad = good;
      std::memcpy(bad.data() + 4 * field, &value, sizeof(value));
      refuse(bad, tokens, "m.bin");
    }
  for (const std::size_t size : {0u, 3u, 4u, 11u, 100u, 6000u}) refuse(good, tokens.substr(0, size), "token");
  refuse(good, tokens.substr(0, 4) + std::string(4, '\0') + "\xff\xff\xff\x7f" + tokens.substr(12), "token 0");
  EXPECT_FALSE(load_llama2c(d / "absent", ""));
}

// |error| of one weight: half a step of its row or block.
TEST(convert, formats_keep_what_they_can) {
  const TemporaryDirectory d;
  for (const char* arch : {"llama", "qwen2", "qwen3"})
    for (const char* name : {"keep", "f32", "f16", "bf16", "int8", "q8_0", "q4_0", "w4a16"}) {
      SCOPED_TRACE(std::string(arch) + " " + name);
      const auto format = parse_weight_format(name);
      ASSERT_TRUE(format);
      const TinyModel from = tiny_model(arch);
      const auto report = write_gguf(from.file, d / "m.gguf", {*format});
      ASSERT_TRUE(report) << report.error().message();
      const auto to = load_model(d / "m.gguf");
      ASSERT_TRUE(to) << to.error().message();
      EXPECT_EQ(report->bytes, to->bytes());
      expect_same_config(to->config, from.file.config);
      // Weights lie in [-1, 1]: half an ulp of the floats; half of 1/127; of 1/8 for Q4_0, whose largest
      // value of the other sign can miss by a whole one.
      const double most = *format == WeightFormat::f16    ? 0x1p-11
                          : *format == WeightFormat::bf16 ? 0x1p-8
                          : *format == WeightFormat::int8 ? 0.5 / 127 + 1e-6
                          : *format == WeightFormat::q8_0 ? 0.5 / 127 + 0x1p-10
                          : *format == WeightFormat::q4_0 ? 1.0 / 8 + 1e-3
                                                          : 0;
      for (const WeightTensor& t : from.file.tensors()) {
        const auto a = values(from.file, t.name), b = values(*to, t.name);
        ASSERT_EQ(a.size(), b.size());
        double worst = 0;
        for (std::size_t i = 0; i < a.size(); ++i)
          worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
        EXPECT_LE(worst, t.rank == 1 ? 0 : most) << t.name;
      }
      EXPECT_EQ(to->find("blk.0.attn_norm.weight")->type, GgmlType::F32);
      if (*format == WeightFormat::int8) {
        const WeightTensor* q = to->find("blk.0.attn_q.weight");
        EXPECT_EQ(q->type, GgmlType::I8);
        ASSERT_NE(to->scales_of(*q), nullptr);
        EXPECT_EQ(to->scales_of(*q)->extents[0], 32);
        // And back: GGUF to GGUF, the scales folded in again.
        const auto before = values(*to, "blk.0.attn_q.weight");
        ASSERT_TRUE(convert(d / "m.gguf", d / "f32.gguf", {WeightFormat::f32}));
        ASSERT_TRUE(convert(d / "m.gguf", d / "same.gguf", {WeightFormat::int8}));
        EXPECT_EQ(values(*load_model(d / "f32.gguf"), "blk.0.attn_q.weight"), before);
        EXPECT_EQ(values(*load_model(d / "same.gguf"), "blk.0.attn_q.weight"), before);
        EXPECT_EQ(load_model(d / "f32.gguf")->find("blk.0.attn_q.weight.scale"), nullptr);
      }
    }
}

// Every matrix in blocks of the format, random bytes but for the scales: as they are, or as the numbers that they mean.
TEST(convert, every_block_format_is_a_source) {
  ModelConfig config = tiny_config();
  config.dim = config.hidden = 256, config.head_dim = config.ropes[0].dim = 64;
  const TemporaryDirectory d;
  for (const GgmlType type : inlay::test::block_formats) {
    SCOPED_TRACE(ggml_format(type).name);
    TinyModel tiny = tiny_model(config);
    std::vector<WeightTensor> tensors(tiny.file.tensors().begin(), tiny.file.tensors().end());
    std::mt19937 random(7);
    for (WeightTensor& t : tensors) {
      if (t.rank != 2) continue;
      t.type = type, t.bytes = t.extents[0] * ggml_row_bytes(type, t.extents[1]);
      auto* bytes = const_cast<std::byte*>(t.data);  // of TinyModel::values, which are more
      std::generate(bytes, bytes + t.bytes, [&] { return static_cast<std::byte>(random()); });
      for (index at = 0; at < t.bytes; at += ggml_format(type).bytes)
        for (const index exponent : inlay::test::exponents_in(type))
          bytes[at + exponent] = std::byte{inlay::test::small_exponent(type)};
    }
    std::vector<std::shared_ptr<const Mapping>> memory;
    for (const auto& each : tiny.values) memory.push_back(Mapping::borrow(std::as_bytes(std::span(each))));
    tiny.file.set_tensors(std::move(tensors), std::move(memory));
    ASSERT_TRUE(write_gguf(tiny.file, d / "keep.gguf", {WeightFormat::keep}));
    const auto kept = load_model(d / "keep.gguf");
    ASSERT_TRUE(kept) << kept.error().message();
    ASSERT_TRUE(convert(d / "keep.gguf", d / "f32.gguf", {WeightFormat::f32}));
    const auto wide = load_model(d / "f32.gguf");
    ASSERT_TRUE(wide) << wide.error().message();
    for (const WeightTensor& t : tiny.file.tensors()) {
      EXPECT_EQ(kept->find(t.name)->type, t.type);
      EXPECT_EQ(std::memcmp(kept->find(t.name)->data, t.data, static_cast<std::size_t>(t.bytes)), 0) << t.name;
      EXPECT_EQ(wide->find(t.name)->type, GgmlType::F32);
      EXPECT_EQ(values(*wide, t.name), values(tiny.file, t.name)) << t.name;
    }
  }
}

// Half pairing turns (i, i + d/2), interleaved (2i, 2i + 1): the same rows under other numbers.
TEST(convert, llama_of_hugging_face_is_permuted) {
  INLAY_NEEDS_DATA("tiny_models/tiny_llama3");
  const std::string path = shared_data + "tiny_models/tiny_llama3";
  const TemporaryDirectory d;
  for (const WeightFormat format : {WeightFormat::keep, WeightFormat::f32, WeightFormat::int8}) {
    const auto report = convert(path, d / "m.gguf", {format});
    ASSERT_TRUE(report) << report.error().message();
    const auto from = load_model(path), to = load_model(d / "m.gguf");
    ASSERT_TRUE(to) << to.error().message();
    EXPECT_EQ(to->config.ropes[0].pairing, RopeConfig::Pairing::interleaved);
    EXPECT_EQ(to->config.ropes[0].scaling, RopeConfig::Scaling::freq_factors);
    expect_same_config(to->config, from->config);
    const double most = format == WeightFormat::int8 ? 0.01 : 0;  // far below the distance of two rows
    for (const std::string part : {"q", "k", "v"}) {
      const auto a = values(*from, "blk.1.attn_" + part + ".weight"), b = values(*to, "blk.1.attn_" + part + ".weight");
      for (std::size_t r = 0; r < a.size() / 64; ++r) {
        const std::size_t head = r / 16, i = r % 16;
        const std::size_t theirs = part == "v" ? r : head * 16 + (i % 2) * 8 + i / 2;
        for (std::size_t k = 0; k < 64; ++k) ASSERT_NEAR(b[r * 64 + k], a[theirs * 64 + k], most) << part << r;
      }
    }
  }
}

TEST(convert, qwen_keeps_its_rows) {
  INLAY_NEEDS_DATA("tiny_models/tiny_qwen3");
  const std::string path = shared_data + "tiny_models/tiny_qwen3";
  const TemporaryDirectory d;
  ASSERT_TRUE(convert(path, d / "m.gguf"));
  const auto from = load_model(path), to = load_model(d / "m.gguf");
  ASSERT_TRUE(to) << to.error().message();
  EXPECT_EQ(to->config.ropes[0].pairing, RopeConfig::Pairing::half);
  for (const WeightTensor& t : from->tensors()) EXPECT_EQ(values(*to, t.name), values(*from, t.name)) << t.name;
}

TEST(convert, scalings_of_rope_survive) {
  const TemporaryDirectory d;
  TinyModel linear = tiny_model(), yarn = tiny_model("qwen2");
  linear.file.config.ropes[0].scaling = RopeConfig::Scaling::linear;
  linear.file.config.ropes[0].factor = 2;
  RopeConfig& y = yarn.file.config.ropes[0];
  y.scaling = RopeConfig::Scaling::yarn, y.factor = 4, y.original_context = 32, y.beta_fast = 16, y.beta_slow = 2;
  y.attention_factor = 1.25;
  ASSERT_TRUE(write_gguf(linear.file, d / "l.gguf"));
  ASSERT_TRUE(write_gguf(yarn.file, d / "y.gguf"));
  const auto l = load_model(d / "l.gguf"), r = load_model(d / "y.gguf");
  EXPECT_EQ(l->config.ropes[0].scaling, RopeConfig::Scaling::linear);
  EXPECT_EQ(l->config.ropes[0].factor, 2);
  EXPECT_EQ(r->config.ropes[0].scaling, RopeConfig::Scaling::yarn);
  EXPECT_EQ(r->config.ropes[0].factor, 4);
  EXPECT_EQ(r->config.ropes[0].original_context, 32);
  EXPECT_EQ(r->config.ropes[0].beta_fast, 16);
  EXPECT_EQ(r->config.ropes[0].beta_slow, 2);
  EXPECT_NEAR(r->config.ropes[0].attention_factor, 1.25, 1e-6);
}

TEST(convert, refuses_what_the_target_cannot_hold_and_leaves_no_file) {
  const TemporaryDirectory d;
  EXPECT_FALSE(parse_weight_format("q5_1"));
  for (const float bad : {1e6f, INFINITY, NAN}) {
    TinyModel tiny = tiny_model();
    tiny.of("blk.0.attn_q.weight")[3] = bad;
    const auto report = write_gguf(tiny.file, d / "m.gguf", {WeightFormat::f16});
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().message().find("'blk.0.attn_q.weight'"), std::string_view::npos)
        << report.error().message();
    EXPECT_TRUE(std::filesystem::is_empty(d.string()));
  }
  // The limit is that of what is stored, the scale of a block where there is one.
  for (const auto& [format, most] : {std::pair{WeightFormat::f16, 65519.0f},
                                     {WeightFormat::q4_0, 65519.0f * 8},
                                     {WeightFormat::q8_0, 65519.0f * 127},
                                     {WeightFormat::bf16, 0x1.FEFFFEp127f}})
    for (const float sign : {1.0f, -1.0f}) {
      TinyModel tiny = tiny_model();
      float& value = tiny.of("blk.0.attn_q.weight")[32 * 5 + 3];
      value = sign * most;
      const auto report = write_gguf(tiny.file, d / "m.gguf", {format});
      EXPECT_TRUE(report) << report.error().message();
      std::filesystem::remove(d / "m.gguf");
      value = sign * most * 1.0001f;
      const auto beyond = write_gguf(tiny.file, d / "m.gguf", {format});
      ASSERT_FALSE(beyond);
      for (const char* word : {"'blk.0.attn_q.weight'", "row 5"})
        EXPECT_NE(beyond.error().message().find(word), std::string_view::npos) << beyond.error().message();
      EXPECT_TRUE(std::filesystem::is_empty(d.string()));
    }
  const TinyModel tiny = tiny_model();
  EXPECT_FALSE(write_gguf(tiny.file, d / "no/such/place.gguf"));
  EXPECT_FALSE(convert(d / "absent.gguf", d / "m.gguf"));
}

// Padding rows of the embedding get tokens, as readers count tokens for rows.
TEST(convert, vocabulary_is_padded_to_the_embedding) {
  const TemporaryDirectory d;
  TinyModel tiny = tiny_model();
  tiny.file.tokenizer.tokens.pop_back(), tiny.file.tokenizer.types.pop_back(), tiny.file.tokenizer.scores.pop_back();
  ASSERT_TRUE(write_gguf(tiny.file, d / "m.gguf"));
  const auto file = load_model(d / "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->tokenizer.tokens.size(), 264u);
  EXPECT_EQ(file->tokenizer.tokens.back(), "[PAD263]");
  EXPECT_EQ(file->tokenizer.types.back(), TokenizerData::TokenType::unused);
}

// Pages that were read leave memory with drop(): resident pages of the mapping are counted.
TEST(convert, drop_gives_memory_back) {
  const TemporaryDirectory d;
  constexpr std::size_t bytes = 8u << 20;
  write_text(d / "big", std::string(bytes, 'x'));
  const auto mapping = Mapping::file(d / "big");
  ASSERT_TRUE(mapping);
  const auto mapped_kilobytes = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("RssFile:")) return std::strtol(line.c_str() + 8, nullptr, 10);
    return -1l;
  };
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes; i += 4096) sum += static_cast<unsigned>((*mapping)->data()[i]);
  EXPECT_EQ(sum, bytes / 4096 * 'x');
  const long before = mapped_kilobytes();
  INLAY_NEEDS(before >= 0, "rss_file", "this kernel does not count mapped pages");
  drop_pages((*mapping)->data(), bytes);
  EXPECT_GE(before - mapped_kilobytes(), 8 * 1024 - 64);
  EXPECT_EQ((*mapping)->data()[12345], std::byte{'x'});  // read again from the file
}

}  // namespace
}  // namespace inlay::exec::test
