// Tokenizers against llama.cpp's own test vectors, and against themselves on text of every kind.
#include <inlay/exec/gguf_model.hpp>
#include <inlay/exec/tokenizer.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

namespace inlay::exec::test {
namespace {

const std::string data = INLAY_SOURCE_DIR "/../shared/data/";

bool present(const std::string& path) {
  if (std::filesystem::exists(path)) return true;
  std::cout << "not run: there is no " << path << "\n";
  return false;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Tokenizer load(const std::string& path) {
  const auto file = GgufFile::open(path);
  EXPECT_TRUE(file) << file.error().message();
  const auto vocabulary = gguf_tokenizer(*file);
  EXPECT_TRUE(vocabulary) << vocabulary.error().message();
  auto tokenizer = Tokenizer::make(*vocabulary);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return *tokenizer;
}

std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  const auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message();
  return ids ? *ids : std::vector<Token>{};
}

constexpr EncodeOptions plain{.add_special = false, .parse_special = false};

struct Vector {
  std::string text;
  std::vector<Token> ids;
};

std::vector<Vector> vectors(const std::string& path) {
  const std::string input = read_file(path + ".inp"), separator = "\n__ggml_vocab_test__\n";
  std::vector<Vector> all;
  for (std::size_t at = 0; at < input.size();) {
    const std::size_t end = std::min(input.find(separator, at), input.size());
    all.push_back({input.substr(at, end - at), {}});
    at = end + separator.size();
  }
  std::ifstream output(path + ".out");
  std::size_t lines = 0;
  for (std::string line; std::getline(output, line); ++lines) {
    std::istringstream numbers(line);
    for (Token id; numbers >> id;) all.at(lines).ids.push_back(id);
  }
  EXPECT_EQ(lines, all.size());
  return all;
}

TEST(tokenizer, llama_cpp_vectors) {
  for (const char* name : {"llama-spm", "gpt-2"}) {
    const std::string path = data + "tokenizers/ggml-vocab-" + name + ".gguf";
    if (!present(path)) return;
    const Tokenizer tokenizer = load(path);
    const auto all = vectors(path);
    EXPECT_EQ(all.size(), 46u);
    for (const Vector& each : all) {
      SCOPED_TRACE(std::string(name) + ": " + each.text);
      EXPECT_EQ(encode(tokenizer, each.text, plain), each.ids);
      EXPECT_EQ(tokenizer.decode(each.ids), each.text);
    }
  }
}

}  // namespace
}  // namespace inlay::exec::test
