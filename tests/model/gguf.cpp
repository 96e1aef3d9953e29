// GGUF files, good ones and thousands of broken ones. Broken files lie in heap blocks of their exact
// length, so that the address sanitizer sees any read past the end.
#include <inlay/model/load.hpp>
#include <inlay/text/tokenizer.hpp>

#include "executor/model/gguf/model.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/model/support/unchecked_gguf.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes tiny_gguf() {
  const TemporaryDirectory directory;
  ModelConfig config = tiny_config();  // with all that a configuration may have
  config.layers = 2;
  RopeConfig& rope = config.ropes[0];
  rope.scaling = RopeConfig::Scaling::yarn, rope.factor = 2, rope.original_context = 32, rope.truncate = false;
  config.ropes.push_back(rope);
  config.ropes[1].theta = 1e3;
  config.set_layers({{.hidden = 32, .window = 0, .rope = 0}, {.hidden = 64, .window = 5, .rope = 1}});
  const TinyModel tiny = tiny_model(config);
  const auto report = write_gguf(tiny.file, directory / "m.gguf", {WeightFormat::q4_0});
  EXPECT_TRUE(report) << report.error().message();
  const std::string text = read_text(directory / "m.gguf");
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Everything that a program does with a file before it computes.
Status load_all(const Bytes& bytes) {
  auto file = GgufFile::parse(Mapping::borrow(bytes), "broken.gguf");
  if (!file) return std::move(file.error());
  auto model = gguf_model(*file);
  if (!model) return std::move(model.error());
  auto tokenizer = Tokenizer::make(model->tokenizer);
  if (!tokenizer) return std::move(tokenizer.error());
  auto ids = tokenizer->encode("ab abc \xff</s>");
  if (!ids) return std::move(ids.error());
  (void)tokenizer->decode(*ids);
  unsigned sum = 0;
  for (const WeightTensor& tensor : model->tensors())
    if (tensor.bytes > 0)
      sum += static_cast<unsigned>(tensor.data[0]) + static_cast<unsigned>(tensor.data[tensor.bytes - 1]);
  EXPECT_GT(sum + 1, 0u);
  return {};
}

// A refusal is one line that names the file, with a code that says whose fault it is.
void expect_clean(const Status& status) {
  if (status) return;
  EXPECT_TRUE(status.code() == StatusCode::corrupt_data || status.code() == StatusCode::not_found ||
              status.code() == StatusCode::unsupported)
      << status.message();
  EXPECT_FALSE(status.message().empty());
  EXPECT_EQ(status.message().find('\n'), std::string_view::npos) << status.message();
  EXPECT_LT(status.message().size(), 500u) << status.message();
}

std::size_t data_begin(const Bytes& bytes) {
  const auto file = GgufFile::parse(Mapping::borrow(bytes), "good");
  std::size_t first = bytes.size();
  for (const WeightTensor& t : file->tensors())
    first = std::min(first, static_cast<std::size_t>(t.data - bytes.data()));
  return first;
}

TEST(gguf, tiny_llama_of_third_parties) {
  INLAY_NEEDS_DATA("tiny_models/llama-2-tiny-random/llama-2-tiny-random.gguf");
  const std::string path = shared_data + "tiny_models/llama-2-tiny-random/llama-2-tiny-random.gguf";
  const auto file = load_model(path);
  ASSERT_TRUE(file) << file.error().message();
  const ModelConfig& c = file->config;
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.layers, 1);
  EXPECT_EQ(c.dim, 8);
  EXPECT_EQ(c.hidden, 32);
  EXPECT_EQ(c.heads, 2);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 4);
  EXPECT_EQ(c.vocab, 32000);
  EXPECT_EQ(c.context, 4096);
  EXPECT_EQ(c.ropes[0].dim, 4);
  EXPECT_EQ(c.ropes[0].pairing, RopeConfig::Pairing::interleaved);
  EXPECT_FLOAT_EQ(static_cast<float>(c.norm_eps), 1e-5f);
  EXPECT_FALSE(c.tie_embeddings);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_EQ(c.qk_norm, QkNorm::none);
  EXPECT_EQ(file->tokenizer.tokens.size(), 32000u);
  const WeightTensor* down = file->find("blk.0.ffn_down.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->type, GgmlType::F16);
  EXPECT_EQ(down->matrix().extents, (std::array<index, 2>{8, 32}));
  EXPECT_EQ(file->find("blk.0.ffn_down"), nullptr);
  file->drop(*down);
  EXPECT_EQ(file->bytes(), 2 * (32000 * 8 * 2) + 4 * 8 * 8 * 2 + 3 * 8 * 32 * 2 + 3 * 8 * 4);
}

TEST(gguf, vocabulary_alone_is_no_model) {
  INLAY_NEEDS_DATA("tokenizers/ggml-vocab-llama-spm.gguf");
  const std::string path = shared_data + "tokenizers/ggml-vocab-llama-spm.gguf";
  const auto file = load_model(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), StatusCode::not_found) << file.error().message();
}

TEST(gguf, every_truncation_is_refused) {
  const Bytes good = tiny_gguf();
  ASSERT_TRUE(load_all(good));
  const std::size_t head = data_begin(good);
  for (std::size_t size = 0; size < good.size(); size += size < head ? 1 : 97) {
    const Status status = load_all(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
    ASSERT_FALSE(status) << size;
    expect_clean(status);
  }
}

TEST(gguf, every_damaged_byte_of_the_head_is_survived) {
  const Bytes good = tiny_gguf();
  const std::size_t head = data_begin(good);
  int refused = 0;
  for (std::size_t at = 0; at < head; ++at)
    for (const unsigned change : {0x01u, 0x80u, 0xffu}) {
      Bytes bad = good;
      bad[at] ^= static_cast<std::byte>(change);
      const Status status = load_all(bad);
      refused += !status;
      expect_clean(status);
    }
  EXPECT_GT(refused, 1000);
}

TEST(gguf, huge_numbers_anywhere_are_survived) {
  const Bytes good = tiny_gguf();
  const std::size_t head = data_begin(good);
  for (std::size_t at = 0; at + 8 <= head; ++at)
    for (const std::uint64_t value :
         {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 40, std::uint64_t{0}}) {
      Bytes bad = good;
      std::memcpy(bad.data() + at, &value, sizeof(value));
      expect_clean(load_all(bad));
    }
}

// A file from parts, to be wrong in exactly one.
struct Parts {
  std::string bytes;
  template <class T> Parts& put(T value) {
    return bytes.append(reinterpret_cast<const char*>(&value), sizeof(T)), *this;
  }
  Parts& text(std::string_view value) {
    put(static_cast<std::uint64_t>(value.size()));
    return bytes.append(value), *this;
  }
  Parts& header(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
    bytes = "GGUF";
    return put(version).put(tensors).put(pairs);
  }
  Parts& tensor(std::string_view name, std::vector<std::uint64_t> extents, std::uint32_t type, std::uint64_t offset) {
    text(name).put(static_cast<std::uint32_t>(extents.size()));
    for (const auto extent : extents) put(extent);
    return put(type).put(offset);
  }
  Parts& data(std::size_t count) { return bytes.resize((bytes.size() + 31) / 32 * 32 + count), *this; }
};

void expect_refused(const Parts& parts, StatusCode code, std::initializer_list<const char*> words) {
  const auto bytes = std::as_bytes(std::span(parts.bytes));
  const Bytes exact(bytes.begin(), bytes.end());
  auto file = GgufFile::parse(Mapping::borrow(exact), "broken.gguf");
  ASSERT_FALSE(file);
  inlay::test::expect_refused(file.error(), code, words);
  expect_clean(file.error());
}

TEST(gguf, says_what_is_wrong) {
  using enum StatusCode;
  const auto u32 = std::uint32_t{4}, text = std::uint32_t{8}, array = std::uint32_t{9};
  expect_refused(Parts{"GGML....................."}, corrupt_data, {"magic"});
  expect_refused(Parts{}.header(0, 0, 1), unsupported, {"version 1", "2 or 3"});
  expect_refused(Parts{}.header(0, 0, 0x03000000), unsupported, {"big-endian"});
  expect_refused(Parts{}.header(std::uint64_t{1} << 60, 0), corrupt_data, {"1152921504606846976 tensors"});
  expect_refused(Parts{}.header(0, std::uint64_t{1} << 60).text("key").put(u32).put(u32), corrupt_data,
                 {"metadata pairs"});
  expect_refused(Parts{}.header(0, 1).text("key").put(std::uint32_t{13}).put(u32), corrupt_data, {"'key'", "type 13"});
  expect_refused(Parts{}.header(0, 1).text("").put(u32).put(std::uint64_t{}), corrupt_data, {"empty key"});
  expect_refused(Parts{}.header(0, 2).text("key").put(u32).put(u32).text("key").put(u32).put(u32), corrupt_data,
                 {"'key'", "twice"});
  expect_refused(Parts{}.header(0, 1).text("key").put(text).put(std::uint64_t{1000}), corrupt_data, {"'key'", "ends"});
  expect_refused(Parts{}.header(0, 1).text("key").put(std::uint32_t{7}).put(std::uint8_t{2}), corrupt_data,
                 {"boolean", "2"});
  expect_refused(Parts{}.header(0, 1).text("key").put(array).put(array).put(std::uint64_t{1}), unsupported,
                 {"array of arrays"});
  expect_refused(Parts{}.header(0, 1).text("key").put(array).put(u32).put(~std::uint64_t{0} / 4), corrupt_data,
                 {"'key'", "elements"});
  expect_refused(Parts{}.header(0, 1).text("key").put(array).put(text).put(~std::uint64_t{0}), corrupt_data,
                 {"element 0"});
  expect_refused(Parts{}.header(0, 1).text("line\nbreak").put(std::uint32_t{99}).put(u32), corrupt_data,
                 {"line\\x0abreak"});
  expect_refused(Parts{}.header(0, 1).text("general.alignment").put(u32).put(std::uint32_t{33}), corrupt_data,
                 {"33", "power of two"});
  expect_refused(Parts{}.header(0, 1).text("general.alignment").put(u32).put(std::uint32_t{0}), corrupt_data,
                 {"alignment"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {32}, 9, 0).data(128), unsupported, {"'t'", "type Q8_1", "Q5_K"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {32}, 42, 0).data(128), unsupported, {"'t'", "type 42", "MXFP4"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).data(128), corrupt_data, {"rank 5"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {}, 0, 0).data(128), corrupt_data, {"rank 0"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0, 0).data(128),
                 corrupt_data, {"extent"});
  // An extent of 0 hides no product that overflows, whatever their order.
  for (const auto& extents : {std::vector{std::uint64_t{1} << 40, std::uint64_t{1} << 40, std::uint64_t{0}},
                              std::vector{std::uint64_t{0}, std::uint64_t{1} << 40, std::uint64_t{1} << 40}})
    expect_refused(Parts{}.header(1, 0).tensor("t", extents, 0, 0).data(128), corrupt_data, {"extent"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {std::uint64_t{1} << 62}, 0, 0).data(128), corrupt_data, {"larger"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {31}, 2, 0).data(128), corrupt_data, {"31", "Q4_0", "32"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {32}, 0, 1).data(256), corrupt_data, {"offset 1", "multiple of 32"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {32}, 0, 32).data(128), corrupt_data, {"passes the end", "128"});
  expect_refused(Parts{}.header(1, 0).tensor("t", {32}, 0, ~std::uint64_t{31}).data(128), corrupt_data,
                 {"passes the end"});
  expect_refused(Parts{}.header(2, 0).tensor("t", {32}, 0, 0).tensor("t", {32}, 0, 128).data(256), corrupt_data,
                 {"twice"});
  expect_refused(Parts{}.header(2, 0).tensor("t", {32}, 0, 0).tensor("u", {32}, 0, 32).data(256), corrupt_data,
                 {"overlap"});
  expect_refused(Parts{}.header(1, 0).tensor("", {32}, 0, 0).data(128), corrupt_data, {"empty name"});
}

TEST(gguf, version_2_and_other_alignments_are_read) {
  Parts parts;
  parts.header(1, 1, 2)
      .text("general.alignment")
      .put(std::uint32_t{4})
      .put(std::uint32_t{64})
      .tensor("t", {4, 2}, 0, 64);
  parts.bytes.resize((parts.bytes.size() + 63) / 64 * 64 + 64);
  const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  parts.bytes.append(reinterpret_cast<const char*>(values), sizeof(values));
  const auto file = GgufFile::parse(Mapping::borrow(std::as_bytes(std::span(parts.bytes))), "good");
  ASSERT_TRUE(file) << file.error().message();
  const WeightTensor& t = file->tensors().at(0);
  EXPECT_EQ(t.extents, (std::array<index, 4>{2, 4, 0, 0}));
  EXPECT_EQ(std::memcmp(t.data, values, sizeof(values)), 0);
}

// An empty tensor takes no bytes, wherever it lies: behind the end, or where another one is.
TEST(gguf, extents_of_zero_are_read) {
  const auto parsed = [](const Parts& parts) {
    return GgufFile::parse(Mapping::borrow(std::as_bytes(std::span(parts.bytes))), "good");
  };
  Parts beside =
      Parts().header(3, 0).tensor("a", {8}, 0, 0).tensor("b", {0}, 0, 0).tensor("c", {32, 0}, 2, 1 << 20).data(32);
  const auto file = parsed(beside);
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->tensors()[1].bytes, 0);
  EXPECT_EQ(file->tensors()[2].extents, (std::array<index, 4>{0, 32, 0, 0}));
  EXPECT_EQ(file->tensors()[2].bytes, 0);
  Parts alone = Parts().header(1, 0).tensor("b", {0}, 0, 1 << 20);
  EXPECT_TRUE(parsed(alone));
}

TEST(gguf, empty_tensors_without_a_place_are_passed_over) {
  const TemporaryDirectory directory;
  TinyModel tiny = tiny_model(tiny_config(), {{.name = "blk.0.more.weight", .rank = 2, .extents = {0, 32}}});
  write_unchecked(tiny.file, directory / "m.gguf");
  const auto file = load_model(directory / "m.gguf");
  ASSERT_TRUE(file) << file.error().message();
}

// An architecture that nothing runs is named before what else is wrong with the file.
TEST(gguf, the_architecture_comes_first) {
  const TemporaryDirectory directory;
  const auto text = std::uint32_t{8};
  const auto refusal = [&](const Parts& parts) {
    write_text(directory / "m.gguf", parts.bytes);
    const auto file = load_model(directory / "m.gguf");
    EXPECT_FALSE(file);
    return std::string(file.error().message());
  };
  const auto head = [&](std::uint64_t tensors, std::uint64_t pairs, std::string_view architecture) {
    return Parts().header(tensors, pairs).text("general.architecture").put(text).text(architecture);
  };
  const auto names = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  names(refusal(head(1, 1, "gemma9").tensor("t", {32}, 9, 0)), "'gemma9'");  // a type that is not read
  names(refusal(head(1, 1, "gemma9").tensor("t", {32}, 0, 1)), "'gemma9'");  // a tensor beyond the file
  names(refusal(head(1, 1, "gemma9").text("t")), "'gemma9'");                // no end
  names(refusal(head(0, 1, "gemma9")), "'gemma9'");                          // no other key
  names(refusal(head(1, 1, "llama").tensor("t", {32}, 9, 0)), "Q8_1");
  names(refusal(Parts().header(1, 0).tensor("t", {32}, 9, 0)), "'general.architecture'");
}

// What the metadata say must fit together: each change of the tiny model is refused with these words.
TEST(gguf, refuses_models_that_do_not_fit_together) {
  const TemporaryDirectory directory;
  const auto refuse = [&](auto change, std::initializer_list<const char*> words) {
    TinyModel tiny = tiny_model();
    change(tiny.file);
    write_unchecked(tiny.file, directory / "m.gguf");
    const auto file = load_model(directory / "m.gguf");
    ASSERT_FALSE(file);
    expect_clean(file.error());
    inlay::test::expect_words(file.error().message(), words);
  };
  refuse(
      [](ModelFile& f) {
        f.config.architecture = "gemma9";
        f.config.ropes[0].pairing = RopeConfig::Pairing::half;
      },
      {"architecture", "'gemma9'"});
  refuse(
      [](ModelFile& f) {
        std::vector<WeightTensor> tensors(f.tensors().begin(), f.tensors().end());
        for (WeightTensor& each : tensors)
          if (each.name == "token_embd.weight") each.extents[0] = each.bytes = 0;
        f.set_tensors(std::move(tensors), {});
      },
      {"'token_embd.weight'", "[0, 32]"});
  refuse([](ModelFile& f) { f.config.layers = 2; }, {"'blk.1.attn_norm.weight'", "missing"});
  refuse([](ModelFile& f) { f.config.layers = 0; }, {"layers", "0"});
  refuse([](ModelFile& f) { f.config.hidden = 48; }, {"'blk.0.ffn_gate.weight'", "[32, 32]", "[48, 32]"});
  refuse([](ModelFile& f) { f.config.kv_heads = 3; }, {"4 heads", "3 kv heads"});
  refuse(
      [](ModelFile& f) {
        f.config.head_dim = 7;
        f.config.ropes[0].dim = 7;
      },
      {"rope dimension", "7"});
  refuse([](ModelFile& f) { f.config.ropes[0].theta = -1; }, {"theta"});
  refuse([](ModelFile& f) { f.config.context = 0; }, {"context length"});
  refuse([](ModelFile& f) { f.config.ropes[0].freq_factors = {1, 2, 3}; }, {"3 frequency factors", "4"});
  refuse([](ModelFile& f) { f.config.ropes[0].freq_factors = {1, 2, 3, -1}; }, {"factors", "positive"});
  refuse([](ModelFile& f) { f.tokenizer.bos = 5000; }, {"bos_token_id", "5000"});
  refuse(
      [](ModelFile& f) {
        f.tokenizer.scores.pop_back();
        f.tokenizer.tokens.pop_back();
      },
      {"vocabulary", "types"});
}

}  // namespace
}  // namespace inlay::exec::test
