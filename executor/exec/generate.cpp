#include <inlay/exec/generate.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace inlay::exec {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The prompt behind what is kept, chunk by chunk. False: interrupted.
Expected<bool> append(Session& session, const std::vector<Token>& prompt, const GenerateOptions& options) {
  const auto all = static_cast<index>(prompt.size());
  if (session.length() + all - options.kept > session.context())
    return failure(invalid("the text has " + std::to_string(session.length() + all - options.kept) +
                           " tokens; it must fit the context of " + std::to_string(session.context())));
  for (index begin = options.kept; begin < all;) {
    if (options.interrupted()) return false;
    const index end = std::min(begin + session.chunk(), all);
    if (Status status = session.append({prompt.begin() + begin, prompt.begin() + end}); !status.ok())
      return failure(std::move(status));
    begin = end;
    options.progress(end - options.kept, all - options.kept);
  }
  return true;
}

}  // namespace

Expected<Generation> generate(Session& session, const Tokenizer& tokenizer, const std::vector<Token>& prompt,
                              const GenerateOptions& options, const std::function<bool(Token)>& emit) {
  const auto all = static_cast<index>(prompt.size());
  if (options.kept < 0 || options.kept >= all)
    return failure(invalid("kept is " + std::to_string(options.kept) + "; it must be below the " + std::to_string(all) +
                           " tokens of the prompt, and not below 0"));
  Generation result;
  result.prompt_tokens = all - options.kept;
  Sampling<Host> sampling = options.sampling;
  const bool penalised =
      sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 || sampling.presence_penalty != 0;
  std::vector<Token> history = penalised ? prompt : std::vector<Token>();
  const std::int64_t prompt_length = all;

  const auto begin = Clock::now();
  const auto appended = append(session, prompt, options);
  if (!appended) return failure(appended.error().code(), appended.error().message());
  result.prefill_seconds = since(begin);
  if (!*appended) {
    result.end = Generation::End::caller;
    return result;
  }
  auto decoding = begin;
  while (result.new_tokens < options.tokens) {
    sampling.step = result.new_tokens;
    if (penalised) {
      sampling.history = {history.data(), {1, static_cast<index>(history.size())}};
      sampling.prompt_lengths = {&prompt_length, {1}};
    }
    auto token = session.sample(sampling, options.biases);
    if (!token) return failure(std::move(token.error()));
    if (Status status = options.drawn(*token); !status.ok()) return failure(std::move(status));
    if (result.new_tokens == 0) {
      result.first_token_seconds = since(begin);
      decoding = Clock::now();
    }
    if (tokenizer.stops(*token) || *token == tokenizer.bos()) {
      result.end = Generation::End::stop;
      break;
    }
    ++result.new_tokens;
    if (!emit(*token) || options.interrupted()) {
      result.end = Generation::End::caller;
      break;
    }
    if (result.new_tokens == options.tokens) break;
    if (session.length() == session.context()) {
      result.end = Generation::End::context;
      break;
    }
    if (penalised) history.push_back(*token);
    if (Status status = session.decode(*token); !status.ok()) return failure(std::move(status));
  }
  result.decode_seconds = since(decoding);
  return result;
}

Expected<Generation> generate(Session& session, const Tokenizer& tokenizer, const std::vector<Token>& prompt,
                              index tokens, const Sampling<Host>& settings, const std::function<bool(Token)>& emit,
                              const std::function<void(index, index)>& progress) {
  return generate(session, tokenizer, prompt, {.tokens = tokens, .sampling = settings, .progress = progress}, emit);
}

}  // namespace inlay::exec
