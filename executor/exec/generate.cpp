#include <inlay/exec/generate.hpp>

#include <chrono>
#include <utility>

namespace inlay::exec {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

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
  const index whole = session.length() + result.prompt_tokens;
  const std::vector<Token> rest(prompt.begin() + options.kept, prompt.end());
  if (Status status = session.append(rest, 1, options.progress, options.interrupted); !status.ok())
    return failure(std::move(status));
  result.prefill_seconds = since(begin);
  if (session.length() < whole) {
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
