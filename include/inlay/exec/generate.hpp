// From a prompt to text: chunked prefill, then one token at a time.
#pragma once

#include <functional>
#include <vector>

#include <inlay/exec/session.hpp>
#include <inlay/ops/sampling.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

struct Generation {
  index prompt_tokens = 0, new_tokens = 0;  // of the prompt: those that were computed
  double prefill_seconds = 0;               // the prompt
  double first_token_seconds = 0;           // until the first token was there
  double decode_seconds = 0;                // all further tokens
  enum class End { tokens, stop, context, caller } end = End::tokens;
};

struct GenerateOptions {
  index tokens = 128;            // new ones at most
  Sampling<Host> sampling = {};  // of host memory; logits, tokens, history, prompt_lengths and step are filled in
  std::vector<LogitBias> biases = {};
  // Tokens at the front of the prompt that the session holds already: they are not computed again. Penalties see them.
  index kept = 0;
  // Asked for between the chunks of the prompt and between tokens; true ends as the caller's.
  std::function<bool()> interrupted = [] { return false; };
  std::function<void(index, index)> progress = [](index, index) {};  // of the prompt
  // Called with each token while the logits that it was drawn from are still the session's.
  std::function<Status(Token)> drawn = [](Token) { return Status(); };
};

// Appends what of the prompt is not kept, and up to `tokens` new ones; `emit(token)` gets each and returns false to
// end. Repetition penalties count prompt and output, frequency and presence penalties the output alone. Ends at a token
// that the tokenizer calls the end, at BOS, and at the end of the context.
Expected<Generation> generate(Session& session, const Tokenizer& tokenizer, const std::vector<Token>& prompt,
                              const GenerateOptions& options, const std::function<bool(Token)>& emit);

// Appends the prompt and up to `tokens` new ones; `emit(token)` gets each and returns false to end.
// Ends at a token that the tokenizer calls the end, at BOS, and at the end of the context.
Expected<Generation> generate(
    Session& session, const Tokenizer& tokenizer, const std::vector<Token>& prompt, index tokens,
    const Sampling<Host>& settings, const std::function<bool(Token)>& emit,
    const std::function<void(index, index)>& progress = [](index, index) {});

}  // namespace inlay::exec
