// tokenizer.model, SentencePiece's protocol buffer, as far as a BPE vocabulary needs it.
#pragma once

#include <string>

#include <inlay/core/status.hpp>
#include <inlay/text/vocabulary.hpp>

namespace inlay::exec {

// Kind::none and a `problem` where it is a model that we cannot run.
Expected<TokenizerData> read_sentencepiece(const std::string& path);

}  // namespace inlay::exec
