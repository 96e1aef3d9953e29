// GGUF files that no converter writes, for tests of what reads them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <inlay/model/model_file.hpp>

#include "executor/model/gguf/config.hpp"
#include "executor/model/gguf/vocabulary.hpp"

namespace inlay::exec::test {

// As write_gguf does, without asking whether anything fits. `more` adds keys.
inline void write_unchecked(
    const ModelFile& file, const std::string& path, const std::function<void(GgufWriter&)>& more = [](GgufWriter&) {}) {
  GgufWriter writer;
  more(writer);
  ASSERT_TRUE(write_gguf_config(file.config, file.path, writer));
  write_gguf_vocabulary(file.tokenizer, file.config.vocab, writer);
  for (const WeightTensor& t : file.tensors())
    writer.tensor(t.name, t.type, {t.extents.data(), static_cast<std::size_t>(t.rank)},
                  [&t](index row, std::byte* out) {
                    const index bytes = ggml_row_bytes(t.type, t.extents[static_cast<std::size_t>(t.rank - 1)]);
                    std::memcpy(out, t.data + row * bytes, static_cast<std::size_t>(bytes));
                    return Status{};
                  });
  const std::vector<float>& factors = file.config.ropes[0].freq_factors;
  if (const index count = static_cast<index>(factors.size()); count > 0)
    writer.tensor("rope_freqs.weight", GgmlType::F32, {&count, 1}, [&factors](index, std::byte* out) {
      std::memcpy(out, factors.data(), factors.size() * sizeof(float));
      return Status{};
    });
  const Status status = writer.write(path);
  ASSERT_TRUE(status) << status.message();
}

}  // namespace inlay::exec::test
