// A checkpoint: config.json, model.safetensors, its index, tokenizer.json and tokenizer_config.json in one JSON:
//
//   {"config": {..}, "header": {..}, "data": 2048, "index": {..}, "tokenizer": {..}, "tokenizer_config": {..}}
//
// "header" is the one of model.safetensors and "data" how many bytes follow it. A string in place of an object is the
// text of the file, JSON or not.
#include <inlay/model/load.hpp>

#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/fuzz/support/use_model.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return fuzz::mutate_json(data, size, max_size, seed, 20);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t max_data = 1 << 16;
  const fuzz::Json input = fuzz::input_of(data, size);
  if (input.is_discarded()) return 0;
  fuzz::CheckpointFiles& files = fuzz::checkpoint_files();
  files.write("config.json", fuzz::member(input, "config"));
  files.write("model.safetensors.index.json", fuzz::member(input, "index"));
  files.write("tokenizer.json", fuzz::member(input, "tokenizer"));
  files.write("tokenizer_config.json", fuzz::member(input, "tokenizer_config"));
  const fuzz::Json* header = fuzz::member(input, "header");
  const fuzz::Json* count = fuzz::member(input, "data");
  std::string bytes = header ? fuzz::CheckpointFiles::text_of(*header) : std::string();
  const std::uint64_t length = bytes.size();
  bytes.insert(0, reinterpret_cast<const char*>(&length), sizeof(length));
  const std::size_t more = count && count->is_number_unsigned() ? count->get<std::uint64_t>() % max_data : 0;
  for (std::size_t i = 0; i < more; ++i) bytes += static_cast<char>(i % 61);  // small numbers as f32, any as f16
  files.write("model.safetensors", bytes);
  const test::Growth growth;
  auto model = exec::load_model(files.directory());
  if (!model) return fuzz::expect_clean(model.error()), fuzz::expect_bounded(growth.bytes(), size + bytes.size()), 0;
  fuzz::use_tokenizer(model->tokenizer, "It's <|end|> 2024\n  ab\xff");
  fuzz::run_tokens(std::move(*model));
  fuzz::expect_bounded(growth.bytes(), size + bytes.size());
  return 0;
}
