// A checkpoint: config.json, model.safetensors, its index, tokenizer.json and tokenizer_config.json in one JSON:
//
//   {"config": {..}, "header": {..}, "data": 2048, "index": {..}, "tokenizer": {..}, "tokenizer_config": {..}}
//
// "header" is the one of model.safetensors and "data" how many bytes follow it, which count up to "fill" and begin
// again; "words": [[at, value], ..] stand among them. "shards": {"name": {"header": {..}, ..}} are more such files, and
// "quantize_config" is that of older writers. A string in place of an object is the text of the file, JSON or not.
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/model/load.hpp>

#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/fuzz/support/use_model.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

namespace {

std::size_t number(const fuzz::Json& of, const char* key, std::size_t below, std::size_t otherwise) {
  const fuzz::Json* const value = fuzz::member(of, key);
  return value && value->is_number_unsigned() ? value->get<std::uint64_t>() % below : otherwise;
}

std::string safetensors(const fuzz::Json& file) {
  constexpr std::size_t max_data = 1 << 16, most_values = 256;
  const fuzz::Json* const header = fuzz::member(file, "header");
  std::string bytes = header ? fuzz::CheckpointFiles::text_of(*header) : std::string();
  const std::size_t more = number(file, "data", max_data, 0);
  // Some end with a page: a read past the end is seen.
  constexpr std::size_t page = 4096;
  if (const std::size_t end = sizeof(std::uint64_t) + bytes.size() + more; bytes.size() % 2 == 0)
    bytes.resize(bytes.size() + (page - end % page) % page, ' ');
  const std::uint64_t length = bytes.size();
  bytes.insert(0, reinterpret_cast<const char*>(&length), sizeof(length));
  const std::size_t begin = bytes.size();
  const std::size_t fill = number(file, "fill", most_values, 61);  // small numbers as f32, any as f16
  for (std::size_t i = 0; i < more; ++i) bytes += static_cast<char>(fill == 0 ? 0 : i % fill);
  const fuzz::Json* const words = fuzz::member(file, "words");
  if (words && words->is_array())
    for (const fuzz::Json& word : *words)
      if (word.is_array() && word.size() == 2 && word[0].is_number_unsigned() && word[1].is_number_integer())
        if (const auto at = word[0].get<std::uint64_t>(); at < more && more - at >= sizeof(std::uint32_t)) {
          const auto value = static_cast<std::uint32_t>(word[1].get<std::int64_t>());
          std::memcpy(bytes.data() + begin + at, &value, sizeof(value));
        }
  return bytes;
}

// Names of files beside the others; whatever else a loader is told, it must not look for it.
bool is_shard(std::string_view name) {
  constexpr std::size_t longest = 60;
  return name.ends_with(".safetensors") && name.size() < longest && name.find('/') == name.npos &&
         name.find('\0') == name.npos && name != "model.safetensors";
}

// Rows as convert reads them.
void read_rows(const exec::ModelFile& model) {
  std::vector<float> row;
  for (const exec::WeightTensor& tensor : model.tensors()) {
    const inlay::index columns = tensor.extents[static_cast<std::size_t>(tensor.rank - 1)];
    const inlay::index rows = columns == 0 ? 0 : tensor.size() / columns;
    if (rows == 0) continue;
    for (const inlay::index each : {inlay::index{0}, rows - 1})
      if (const Status status = model.read_row(tensor, each, row); !status && !tensor.codes)
        fuzz::broken_promise("rows of floats are read: " + std::string(status.message()));
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return fuzz::mutate_json(data, size, max_size, seed, 20);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Json input = fuzz::input_of(data, size);
  if (input.is_discarded()) return 0;
  fuzz::CheckpointFiles& files = fuzz::checkpoint_files();
  files.write("config.json", fuzz::member(input, "config"));
  files.write("model.safetensors.index.json", fuzz::member(input, "index"));
  files.write("quantize_config.json", fuzz::member(input, "quantize_config"));
  files.write("tokenizer.json", fuzz::member(input, "tokenizer"));
  files.write("tokenizer_config.json", fuzz::member(input, "tokenizer_config"));
  const std::string bytes = safetensors(input);
  files.write("model.safetensors", bytes);
  std::size_t read = size + bytes.size();
  std::vector<std::string> shards;
  if (const fuzz::Json* more = fuzz::member(input, "shards"); more && more->is_object())
    for (const auto& [name, file] : more->items())
      if (is_shard(name)) {
        const std::string shard = safetensors(file);
        files.write(name, shard);
        shards.push_back(name), read += shard.size();
      }
  const test::Growth growth;
  auto model = exec::load_model(files.directory());
  for (const std::string& name : shards) ::remove(files.path(name).c_str());
  if (!model)
    return fuzz::expect_clean(model.error(), files.directory()), fuzz::expect_bounded(growth.bytes(), read), 0;
  fuzz::use_tokenizer(model->tokenizer, "It's <|end|> 2024\n  ab\xff");
  read_rows(*model);
  fuzz::run_tokens(std::move(*model));
  fuzz::expect_bounded(growth.bytes(), read);
  return 0;
}
