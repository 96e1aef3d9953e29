// The vocabulary of a GGUF file, read and written: the keys `tokenizer.*`.
#pragma once

#include <inlay/text/vocabulary.hpp>

#include "executor/model/gguf/gguf.hpp"
#include "executor/model/gguf/writer.hpp"

namespace inlay::exec {

// Also of files that are nothing but a vocabulary, of any architecture.
Expected<TokenizerData> read_gguf_vocabulary(const GgufFile& file);

// Readers take the count of tokens for the rows of the embedding: padding rows, up to `rows`, get a name.
void write_gguf_vocabulary(const TokenizerData& vocabulary, index rows, GgufWriter& writer);

}  // namespace inlay::exec
