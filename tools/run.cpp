// inlay run: lets a model write.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "measure/memory.hpp"
#include "tools/answer.hpp"
#include "tools/chat.hpp"
#include "tools/commands.hpp"
#include "tools/ranks.hpp"
#include "tools/run_many.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct RunOptions {
  ModelOptions model;
  std::string prompt;
  AnswerOptions answer;
  ChatOptions chat;
  ManyOptions many;
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

int run_one(const RunOptions& options);

int run(const RunOptions& options) {
  return with_ranks(
      options.model,
      [&](const ModelOptions& of_rank) {
        RunOptions own = options;
        own.model = of_rank;
        return run_one(own);
      },
      [&](const ModelOptions& of_rank) {
        return options.many.prompts.empty() ? follow_session(of_rank) : follow_server(of_rank, options.many.texts);
      });
}

int run_one(const RunOptions& options) {
  auto model = open_model(options.model);
  if (!model) return wrong(model.error());
  if (!options.many.prompts.empty()) return run_many(options.many, options.model, options.answer, *model);
  if (options.chat.chat) {
    auto session = make_session(options.model, model->file, options.model.backend);
    return session ? chat(options.chat, options.answer, *model, *session) : wrong(session.error());
  }
  auto prompt = prompt_tokens(model->tokenizer, options.prompt);
  if (!prompt) return wrong(prompt.error());
  auto session = make_session(options.model, model->file, options.model.backend);
  if (!session) return wrong(session.error());

  if (static_cast<index>(prompt->size()) > session->context())
    return wrong("the prompt has " + std::to_string(prompt->size()) + " tokens; it must fit the context of " +
                 std::to_string(session->context()));
  auto biases = options.answer.logit_biases(session->config().vocab);
  if (!biases) return wrong(biases.error());
  auto answer = Answer::make(model->tokenizer, options.answer, options.prompt.empty());
  if (!answer) return wrong(answer.error());
  std::vector<exec::Token> text = *prompt;
  std::fputs(options.prompt.c_str(), stdout);
  auto prefilling = std::make_unique<Progress>("reading the prompt");
  const auto result = exec::generate(*session, model->tokenizer, *prompt,
                                     {.tokens = options.answer.tokens,
                                      .sampling = options.answer.sampling,
                                      .biases = std::move(*biases),
                                      .progress = [&](index done, index all) { (*prefilling)(done, all); },
                                      .drawn =
                                          [&](exec::Token token) {
                                            prefilling.reset();
                                            return answer->tell_logprobs(*session, token);
                                          }},
                                     [&](exec::Token token) {
                                       text.push_back(token);
                                       return answer->push(token);
                                     });
  prefilling.reset();
  answer->finish();
  if (isatty(STDOUT_FILENO)) std::fputc('\n', stdout);  // a file gets the text alone
  std::fflush(stdout);
  if (!result) return wrong(result.error());

  std::fprintf(stderr, "time to first token %.1f ms, %s\n", result->first_token_seconds * 1e3, rates(*result).c_str());
  std::fprintf(stderr, "weights %.1f MB, KV cache %.1f MB reserved, peak memory %.1f MB\n",
               static_cast<double>(model->file->bytes()) * 1e-6, static_cast<double>(session->cache_bytes()) * 1e-6,
               static_cast<double>(measure::peak_resident_bytes()) * 1e-6);
  const auto& [replayed, captured, eager, pieces] = session->plan_counts();
  const std::string cut = pieces == captured ? "" : " in " + std::to_string(pieces) + " pieces";
  std::fprintf(stderr, "passes: %ld by a plan, %ld captured for one%s, %ld that found none\n",
               static_cast<long>(replayed), static_cast<long>(captured), cut.c_str(), static_cast<long>(eager));
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
  CLI::App& command =
      *app.add_subcommand("run", "Let a model write: the text alone goes to standard output; --chat: talk with it");
  options->model.add_to(command);
  add_ranks(command, options->model.ranks, options->model.cut);
  CLI::Option* prompt =
      command.add_option("--prompt", options->prompt, "Text to go on from (default: the beginning of a text)");
  options->answer.add_to(command);
  options->chat.add_to(command);
  command.add_option("--compare", options->compare, "Afterwards, print the largest logit difference to this backend")
      ->check(CLI::IsMember(backends_and_pairs()))
      ->excludes("--chat")
      ->excludes("--ranks");
  prompt->excludes("--chat");
  options->many.add_to(command);
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace inlay::tools
