// From a prompt to text: chunked prefill, then one token at a time.
#pragma once

#include <functional>
#include <vector>

#include <inlay/exec/session.hpp>
#include <inlay/ops/sampling.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

struct Generation {
  index prompt_tokens = 0, new_tokens = 0;
  double prefill_seconds = 0;      // the prompt
  double first_token_seconds = 0;  // until the first token was there
  double decode_seconds = 0;       // all further tokens
  enum class End { tokens, stop, context, caller } end = End::tokens;
};

// Appends the prompt and up to `tokens` new ones; `emit(token)` gets each and returns false to end.
// Ends at a token that the tokenizer calls the end, at BOS, and at the end of the context.
Expected<Generation> generate(
    Session& session, const Tokenizer& tokenizer, const std::vector<Token>& prompt, index tokens,
    const Sampling<Host>& settings, const std::function<bool(Token)>& emit,
    const std::function<void(index, index)>& progress = [](index, index) {});

}  // namespace inlay::exec
