#include <inlay/exec/generate.hpp>

#include <chrono>
#include <utility>

namespace inlay::exec {

Expected<Generation> generate(Session& session, const Tokenizer& tokenizer, const std::vector<Token>& prompt,
                              index tokens, const Sampling<Host>& settings, const std::function<bool(Token)>& emit,
                              const std::function<void(index, index)>& progress) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Generation result;
  result.prompt_tokens = static_cast<index>(prompt.size());
  const bool penalised =
      settings.repetition_penalty != 1 || settings.frequency_penalty != 0 || settings.presence_penalty != 0;
  std::vector<Token> history = penalised ? prompt : std::vector<Token>();
  const std::int64_t prompt_length = result.prompt_tokens;
  Sampling<Host> sampling = settings;

  const auto begin = Clock::now();
  if (Status status = session.append(prompt, 1, progress); !status.ok()) return failure(std::move(status));
  result.prefill_seconds = since(begin);
  auto decoding = begin;
  while (result.new_tokens < tokens) {
    sampling.step = result.new_tokens;
    if (penalised) {
      sampling.history = {history.data(), {1, static_cast<index>(history.size())}};
      sampling.prompt_lengths = {&prompt_length, {1}};  // penalties tell the prompt from the answer
    }
    auto token = session.sample(sampling);
    if (!token) return failure(std::move(token.error()));
    if (result.new_tokens == 0) {
      result.first_token_seconds = since(begin);
      decoding = Clock::now();
    }
    if (tokenizer.stops(*token) || *token == tokenizer.bos()) {
      result.end = Generation::End::stop;
      break;
    }
    ++result.new_tokens;
    if (!emit(*token)) {
      result.end = Generation::End::caller;
      break;
    }
    if (result.new_tokens == tokens) break;
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

}  // namespace inlay::exec
