// inlay run: lets a model write.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "measure/memory.hpp"
#include "tools/commands.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct RunOptions {
  ModelOptions model;
  std::string prompt;
  index tokens = 128;
  Sampling<Host> sampling{.logits = {}, .tokens = {}, .temperature = 0};
  std::string compare;
};

// An empty prompt starts from BOS; a vocabulary without BOS has nothing to start from.
Expected<std::vector<exec::Token>> prompt_tokens(const exec::Tokenizer& tokenizer, const std::string& prompt) {
  if (!prompt.empty()) return tokenizer.encode(prompt);
  if (tokenizer.bos() == exec::TokenizerData::no_token)
    return failure(StatusCode::invalid_argument,
                   "--prompt is empty and the model has no BOS token; a prompt must be given");
  return std::vector<exec::Token>{tokenizer.bos()};
}

// The same text through another backend: the largest distance of two logits.
Status compare(const RunOptions& options, const LoadedModel& model, exec::Session& session,
               const std::vector<exec::Token>& text) {
  auto other = make_session(options.model, model.file, options.compare);
  if (!other) return std::move(other.error());
  const index rows = static_cast<index>(text.size());
  session.reset();
  if (Status status = session.append(text, rows); !status.ok()) return status;
  auto ours = session.logits();
  if (!ours) return std::move(ours.error());
  if (Status status = other->append(text, rows); !status.ok()) return status;
  auto theirs = other->logits();
  if (!theirs) return std::move(theirs.error());
  double largest = 0;
  for (index i = 0; i < ours->size(); ++i)
    largest = std::fmax(largest, std::fabs(static_cast<double>(ours->as<float>()[i]) - theirs->as<float>()[i]));
  std::fprintf(stderr, "largest logit difference, %s against %s: %.3g over %ld positions\n",
               options.model.backend.c_str(), options.compare.c_str(), largest, static_cast<long>(rows));
  return {};
}

int run(const RunOptions& options) {
  auto model = open_model(options.model);
  if (!model) return wrong(model.error());
  auto prompt = prompt_tokens(model->tokenizer, options.prompt);
  if (!prompt) return wrong(prompt.error());
  auto session = make_session(options.model, model->file, options.model.backend);
  if (!session) return wrong(session.error());

  if (static_cast<index>(prompt->size()) > session->context())
    return wrong("the prompt has " + std::to_string(prompt->size()) + " tokens; it must fit the context of " +
                 std::to_string(session->context()));
  std::vector<exec::Token> text = *prompt;
  std::fputs(options.prompt.c_str(), stdout);
  exec::StreamDecoder stream(model->tokenizer, options.prompt.empty());
  auto prefilling = std::make_unique<Progress>("reading the prompt");
  const auto result = exec::generate(
      *session, model->tokenizer, *prompt, options.tokens, options.sampling,
      [&](exec::Token token) {
        prefilling.reset();
        text.push_back(token);
        std::fputs(stream.push(token).c_str(), stdout);
        std::fflush(stdout);
        return true;
      },
      [&](index done, index all) { (*prefilling)(done, all); });
  prefilling.reset();
  std::fputs(stream.finish().c_str(), stdout);
  if (isatty(STDOUT_FILENO)) std::fputc('\n', stdout);  // a file gets the text alone
  std::fflush(stdout);
  if (!result) return wrong(result.error());

  const auto rate = [](index tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  const index decoded = result->new_tokens > 0 ? result->new_tokens - 1 : 0;
  std::fprintf(stderr, "time to first token %.1f ms, prefill %.1f tok/s (%ld tokens), decode %.1f tok/s (%ld tokens)\n",
               result->first_token_seconds * 1e3, rate(result->prompt_tokens, result->prefill_seconds),
               static_cast<long>(result->prompt_tokens), rate(decoded, result->decode_seconds),
               static_cast<long>(decoded));
  std::fprintf(stderr, "weights %.1f MB, KV cache %.1f MB reserved, peak memory %.1f MB\n",
               static_cast<double>(model->file->bytes()) * 1e-6, static_cast<double>(session->cache_bytes()) * 1e-6,
               static_cast<double>(measure::peak_resident_bytes()) * 1e-6);
  for (const exec::Fallback& each : session->fallbacks())
    std::fprintf(stderr, "%s ran on %s: %s says: %s\n", std::string(each.op).c_str(), std::string(each.to).c_str(),
                 std::string(each.from).c_str(), each.reason.c_str());
  if (options.compare.empty()) return 0;
  if (static_cast<index>(text.size()) > session->context()) text.resize(static_cast<std::size_t>(session->context()));
  const Status status = compare(options, *model, *session, text);
  return status.ok() ? 0 : wrong(status);
}

}  // namespace

void add_run(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<RunOptions>();
  CLI::App& command = *app.add_subcommand("run", "Let a model write: the text alone goes to standard output");
  options->model.add_to(command);
  command.add_option("--prompt", options->prompt, "Text to go on from (default: the beginning of a text)");
  command.add_option("--tokens", options->tokens, "Tokens to write at most")->check(CLI::Range(0, 1 << 30));
  Sampling<Host>& sampling = options->sampling;
  command.add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->check(CLI::Range(0.0, 1e3));
  command.add_option("--top-k", sampling.top_k, "0: all")->check(CLI::Range(0, 1 << 30));
  command.add_option("--top-p", sampling.top_p)->check(CLI::Range(0.0, 1.0));
  command.add_option("--min-p", sampling.min_p)->check(CLI::Range(0.0, 1.0));
  command.add_option("--repetition-penalty", sampling.repetition_penalty)->check(CLI::Range(1e-3, 1e3));
  command.add_option("--seed", sampling.seed, "Equal seeds write equal texts");
  command.add_option("--compare", options->compare, "Afterwards, print the largest logit difference to this backend")
      ->check(CLI::IsMember(backends()));
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace inlay::tools
