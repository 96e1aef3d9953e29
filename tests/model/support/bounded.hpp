// What loading may cost, and a checkpoint to change. Included by one file of a program: tests/support/growth.hpp.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <inlay/model/load.hpp>

#include "tests/model/support/checkpoint.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/support/file_cost.hpp"
#include "tests/support/growth.hpp"

namespace inlay::exec::test {

using inlay::test::any_file_costs, inlay::test::file_share, inlay::test::Growth;

inline std::size_t bytes_below(const std::filesystem::path& place) {
  if (std::filesystem::is_regular_file(place)) return std::filesystem::file_size(place);
  std::size_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(place)) sum += entry.file_size();
  return sum;
}

// Loads and says what became of it; a failure of the test if that took too much.
inline Expected<ModelFile> bounded_load(const std::string& path, std::size_t more = any_file_costs) {
  const std::size_t size = bytes_below(path);
  const Growth growth;
  auto file = load_model(path);
  EXPECT_LE(growth.bytes(), file_share * size + more) << "for " << size << " bytes of files";
  // What grows with the square takes minutes.
  EXPECT_LE(growth.seconds(), inlay::test::at_most_seconds(1));
  return file;
}

struct Checkpoint {
  TemporaryDirectory directory;
  Json config = llama_config();
  Shard shard = llama_shard();

  void write(const std::string& name, const Json& json) const { write_text(directory / name, json.dump()); }
  std::string place() const {
    write("config.json", config);
    write_text(directory / "model.safetensors", shard.bytes());
    return directory.string();
  }
};

// Of the 256 bytes, without merges.
inline Json byte_tokenizer() {
  Json vocab = Json::object();
  for (unsigned b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    vocab[to_byte_alphabet({&byte, 1})] = b;
  }
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  return {{"pre_tokenizer", bytes},
          {"decoder", bytes},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
}

}  // namespace inlay::exec::test
