// tokenizer.json of Hugging Face's `tokenizers`: a chain of parts, each of which may change what comes out.
//
//   added_tokens -> normalizer -> pre_tokenizer -> model -> post_processor            decoder
//
// What we do not do is refused by name, and so is any key that we do not know.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <inlay/text/vocabulary.hpp>

#include "executor/model/json/file.hpp"

namespace inlay::exec {

// Kind::none and a `problem` where it is a tokenizer that we cannot run.
Expected<TokenizerData> read_tokenizer_json(const std::string& path, index rows);

// What an added token may ask of the text beside it.
inline constexpr std::pair<const char*, std::vector<std::int32_t> TokenizerData::*> added_token_sides[] = {
    {"lstrip", &TokenizerData::lstrip},
    {"rstrip", &TokenizerData::rstrip},
    {"single_word", &TokenizerData::single_word},
};

// Why a token of added_tokens (or of tokenizer_config.json) cannot be looked for as it asks; empty where it can.
std::string added_token_problem(const Json& token);

}  // namespace inlay::exec
