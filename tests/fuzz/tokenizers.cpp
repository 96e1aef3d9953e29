// tokenizer.json with the files beside it, and a text:
//
//   {"tokenizer": {..}, "config": {..}, "added": {..}, "specials": {..}, "generation": {..}, "text": ".."}
//
// "text": a character below U+0100 is that byte. The others as a string are the file's text, JSON or not.
#include <cstdlib>
#include <string>
#include <string_view>

#include "executor/model/hf/tokenizer.hpp"
#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/fuzz/support/use_model.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

// Whether the text must come back. Over characters spaces are U+2581, Metaspace puts none where one is, and a token
// whose name is that of bytes prints them.
static bool is_exact(const exec::TokenizerData& t, const std::string& text) {
  using Type = exec::TokenizerData::TokenType;
  const bool bytes = t.kind == exec::TokenizerData::Kind::bpe;
  bool exact =
      !t.nfc && (bytes || (!t.metaspace && !t.ignore_merges && text.find("\xe2\x96\x81") == std::string::npos));
  for (const auto type : t.types) exact = exact && (type <= Type::normal || (type == Type::byte && !bytes));
  for (const std::string_view merge : t.merges) exact = exact && (bytes || merge.find("<0x") == merge.npos);
  return exact;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return fuzz::mutate_json(data, size, max_size, seed, 20);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr inlay::index rows = 1000;
  const fuzz::Json input = fuzz::input_of(data, size);
  if (input.is_discarded()) return 0;
  fuzz::CheckpointFiles& files = fuzz::checkpoint_files();
  files.write("tokenizer.json", fuzz::member(input, "tokenizer"));
  files.write("tokenizer_config.json", fuzz::member(input, "config"));
  files.write("added_tokens.json", fuzz::member(input, "added"));
  files.write("special_tokens_map.json", fuzz::member(input, "specials"));
  files.write("generation_config.json", fuzz::member(input, "generation"));
  const test::Growth growth;
  const auto read = exec::hf_tokenizer(files.directory(), {}, rows);
  if (!read) return fuzz::expect_clean(read.error()), fuzz::expect_bounded(growth.bytes(), size), 0;
  const std::string text = fuzz::bytes_of(fuzz::member(input, "text"));
  fuzz::use_tokenizer(*read, text, is_exact(*read, text));
  fuzz::expect_bounded(growth.bytes(), size);
  return 0;
}
