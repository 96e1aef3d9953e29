// What a model writes by itself, from the beginning of a text and always by its likeliest token.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <inlay/exec/eager.hpp>
#include <inlay/exec/generate.hpp>

namespace inlay::exec::test {

inline std::string greedy_text(Session& session, const Tokenizer& tokenizer, index tokens) {
  std::string text;
  StreamDecoder decoder(tokenizer, true);
  const auto result = generate(session, tokenizer, {tokenizer.bos()}, tokens,
                               Sampling<Host>{.logits = {}, .tokens = {}, .temperature = 0}, [&](Token token) {
                                 text += decoder.push(token);
                                 return true;
                               });
  EXPECT_TRUE(result.has_value());
  return text + decoder.finish();
}

}  // namespace inlay::exec::test
