// What a program does with a vocabulary that was loaded: text to ids and back.
#pragma once

#include <string>
#include <string_view>

#include <inlay/text/tokenizer.hpp>

#include "tests/fuzz/support/promise.hpp"

namespace inlay::fuzz {

// `exact`: what is decoded must be the text.
inline void use_tokenizer(const exec::TokenizerData& data, std::string_view text, bool exact = false) {
  const auto tokenizer = exec::Tokenizer::make(data);
  if (!tokenizer) return expect_clean(tokenizer.error());
  for (const bool special : {true, false}) {
    const auto ids = tokenizer->encode(text, {.add_special = special, .parse_special = special});
    if (!ids) {
      expect_clean(ids.error());
      continue;
    }
    std::string streamed;
    exec::StreamDecoder stream(*tokenizer, true);
    for (const exec::Token id : *ids) {
      if (id < 0 || id >= tokenizer->vocab_size()) broken_promise("an id is one of the vocabulary");
      streamed += stream.push(id);
    }
    streamed += stream.finish();
    const std::string decoded = tokenizer->decode(*ids);
    if (streamed != decoded) broken_promise("a stream says what decode says");
    if (exact && !special && decoded != text) broken_promise("decode(encode(text)) is the text");
  }
  (void)tokenizer->find(text), (void)tokenizer->stops(tokenizer->eos());
}

}  // namespace inlay::fuzz
