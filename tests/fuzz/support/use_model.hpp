// What a program does with what was loaded: whatever it is, it works, or is refused as a file's fault.
#pragma once

#include <string_view>

#include <inlay/model/model_file.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::fuzz {

// Text to ids and back. `exact`: what is decoded must be the text.
void use_tokenizer(const exec::Tokenizer& tokenizer, std::string_view text, bool exact = false);
void use_tokenizer(const exec::TokenizerData& data, std::string_view text, bool exact = false);

// Three tokens through the executor, on the reference.
void run_tokens(exec::ModelFile model);

}  // namespace inlay::fuzz
