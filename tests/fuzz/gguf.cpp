// GGUF files. Most changes keep the file one: what loads is tokenized with and runs two tokens.
#include <cstring>
#include <random>
#include <utility>

#include "executor/model/gguf/gguf.hpp"
#include "executor/model/gguf/model.hpp"
#include "tests/fuzz/support/gguf_changes.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/fuzz/support/use_model.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  fuzz::GgufParts file;
  if (random() % 5 == 0 || !file.read({reinterpret_cast<const char*>(data), size}))
    return LLVMFuzzerMutate(data, size, max_size);
  fuzz::change_gguf(file, random);
  const std::string bytes = file.written();
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const test::Growth growth;
  const auto refused = [&](const Status& status) {
    fuzz::expect_clean(status, "f.gguf"), fuzz::expect_bounded(growth.bytes(), size);
    return 0;
  };
  auto file = exec::GgufFile::parse(exec::Mapping::borrow(std::as_bytes(std::span(data, size))), "f.gguf");
  if (!file) return refused(file.error());
  auto model = exec::gguf_model(*file);
  if (!model) return refused(model.error());
  fuzz::use_tokenizer(model->tokenizer, "ab abc \xff</s>  b");
  fuzz::run_tokens(std::move(*model));
  fuzz::expect_bounded(growth.bytes(), size);
  return 0;
}
