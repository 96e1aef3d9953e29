// The tokenizer beside a Hugging Face checkpoint: tokenizer.json, or without one SentencePiece's tokenizer.model;
// tokenizer_config.json adds special tokens to either.
#pragma once

#include <filesystem>

#include <inlay/text/vocabulary.hpp>

#include "executor/model/json/file.hpp"

namespace inlay::exec {

// Kind::none where the directory has no tokenizer, and where it has one that we cannot run: weights are
// of use without it, and `problem` says what is the matter. `rows` are those of the embedding.
Expected<TokenizerData> hf_tokenizer(const std::filesystem::path& directory, const Json& config, index rows);

}  // namespace inlay::exec
