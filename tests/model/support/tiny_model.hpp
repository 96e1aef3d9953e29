// A complete Llama of a few kilobytes, made in memory, for tests that break it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <inlay/model/convert.hpp>

namespace inlay::exec::test {

inline const std::string shared_data = INLAY_SOURCE_DIR "/../shared/data/";

inline bool present(const std::string& path) {
  if (std::filesystem::exists(path)) return true;
  std::cout << "not run: there is no " << path << "\n";
  return false;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

// A directory of its own, gone with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "inlay_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string string() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Owns what a ModelFile points to.
struct TinyModel {
  std::vector<std::vector<float>> values;
  ModelFile file;

  void add(std::vector<WeightTensor>& tensors, const std::string& name, std::initializer_list<index> extents) {
    WeightTensor t{.name = name, .rank = static_cast<int>(extents.size())};
    std::copy(extents.begin(), extents.end(), t.extents.begin());
    std::mt19937 random(static_cast<unsigned>(values.size()) + 1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    values.emplace_back(static_cast<std::size_t>(t.size()));
    for (float& x : values.back()) x = uniform(random);
    t.data = reinterpret_cast<const std::byte*>(values.back().data());
    t.bytes = t.size() * 4;
    tensors.push_back(t);
  }
};

inline TinyModel tiny_model(const std::string& arch = "llama") {
  TinyModel m;
  m.values.reserve(64);
  ModelConfig& c = m.file.config;
  c.architecture = arch;
  c.layers = 1, c.dim = 32, c.heads = 4, c.kv_heads = 2, c.head_dim = 8, c.hidden = 32, c.vocab = 264, c.context = 64;
  c.rope.dim = 8;
  c.rope.pairing = arch == "llama" ? RopeConfig::Pairing::interleaved : RopeConfig::Pairing::half;
  c.qkv_bias = arch == "qwen2", c.qk_norm = arch == "qwen3";
  std::vector<WeightTensor> t;
  m.add(t, "token_embd.weight", {264, 32}), m.add(t, "output_norm.weight", {32}), m.add(t, "output.weight", {264, 32});
  m.add(t, "blk.0.attn_norm.weight", {32}), m.add(t, "blk.0.ffn_norm.weight", {32});
  m.add(t, "blk.0.attn_q.weight", {32, 32}), m.add(t, "blk.0.attn_k.weight", {16, 32}),
      m.add(t, "blk.0.attn_v.weight", {16, 32});
  m.add(t, "blk.0.attn_output.weight", {32, 32}), m.add(t, "blk.0.ffn_gate.weight", {32, 32});
  m.add(t, "blk.0.ffn_up.weight", {32, 32}), m.add(t, "blk.0.ffn_down.weight", {32, 32});
  if (c.qkv_bias)
    m.add(t, "blk.0.attn_q.bias", {32}), m.add(t, "blk.0.attn_k.bias", {16}), m.add(t, "blk.0.attn_v.bias", {16});
  if (c.qk_norm) m.add(t, "blk.0.attn_q_norm.weight", {8}), m.add(t, "blk.0.attn_k_norm.weight", {8});
  std::vector<std::shared_ptr<const Mapping>> memory;
  for (const auto& v : m.values) memory.push_back(Mapping::borrow(std::as_bytes(std::span(v))));
  m.file.path = "tiny";
  m.file.set_tensors(std::move(t), std::move(memory));
  TokenizerData& v = m.file.tokenizer;
  auto text = std::make_shared<std::vector<std::string>>(std::vector<std::string>{"<unk>", "<s>", "</s>"});
  using Type = TokenizerData::TokenType;
  v.types = {Type::unknown, Type::control, Type::control};
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(b));
    text->push_back(name), v.types.push_back(Type::byte);
  }
  for (const char* word : {"a", "b", "ab", "\xe2\x96\x81",
                           "\xe2\x96\x81"
                           "ab"})
    text->push_back(word), v.types.push_back(Type::normal);
  v.scores.assign(text->size(), 0);
  v.tokens.assign(text->begin(), text->end());
  v.kind = TokenizerData::Kind::spm;
  v.unknown = 0, v.bos = 1, v.eos = 2, v.add_bos = v.add_space_prefix = true;
  v.text.push_back(text);
  return m;
}

}  // namespace inlay::exec::test
