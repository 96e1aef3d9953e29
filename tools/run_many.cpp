#include "tools/run_many.hpp"

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/exec/serve/server.hpp>
#include <inlay/exec/text_stream.hpp>

#include "measure/timing.hpp"

namespace inlay::tools {

namespace {

using End = exec::TextRequest::End;

const char* name(End end) {
  switch (end) {
    case End::tokens: return "tokens";
    case End::stop: return "stop";
    case End::context: return "context";
    case End::caller: return "stop string";
    case End::failed: break;
  }
  return "failed";
}

// A prompt and what comes behind it.
struct Written {
  std::string prompt;
  exec::TextStream stream;
  std::string text = {};
  index tokens = 0;
  bool done = false;
  End end = End::tokens;
  std::string failure = {};

  bool push(exec::Token token) {
    ++tokens;
    text += stream.push(token);
    return !stream.stopped();
  }
  void finish(End how, const Status& status) {
    text += stream.finish();
    done = true, end = how, failure = status.message();
  }
  std::string line() const {
    nlohmann::ordered_json object{{"prompt", prompt}, {"text", text}, {"tokens", tokens}, {"end", name(end)}};
    if (end == End::failed) object["failure"] = failure;
    // A text may end within a character.
    return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
};

}  // namespace

Expected<std::vector<std::string>> prompts_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return failure(StatusCode::not_found, "--prompts: " + quote(path) + " cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty())
      return failure(StatusCode::invalid_argument, "--prompts: line " + std::to_string(lines.size() + 1) + " of " +
                                                       quote(path) + " is empty; each line must be a prompt");
    lines.push_back(std::move(line));
  }
  if (lines.empty()) return failure(StatusCode::invalid_argument, "--prompts: " + quote(path) + " has no line");
  return lines;
}

void ManyOptions::add_to(CLI::App& command) {
  CLI::Option* const file = command.add_option(
      "--prompts", prompts, "A file with a prompt a line: all are written, and printed in order, a JSON object a line");
  file->excludes("--prompt")->excludes("--chat")->excludes("--logprobs")->excludes("--compare");
  for (CLI::Option* const option : texts.add_to(command)) option->needs(file);
}

int run_many(const ManyOptions& options, const ModelOptions& of_model, const AnswerOptions& answers,
             const LoadedModel& model) {
  auto prompts = prompts_of(options.prompts);
  if (!prompts) return wrong(prompts.error());
  auto server = make_server(of_model, model, options.texts);
  if (!server) return wrong(server.error());
  auto biases = answers.logit_biases(server->config().vocab);
  if (!biases) return wrong(biases.error());
  auto stops = exec::StopStrings::make(answers.stops);
  if (!stops) return wrong("--stop: " + std::string(stops.error().message()));

  std::vector<std::unique_ptr<Written>> texts;
  index read = 0;
  for (std::string& prompt : *prompts) {
    auto tokens = model.tokenizer.encode(prompt);
    if (!tokens) return wrong(tokens.error());
    read += static_cast<index>(tokens->size());
    Written& text = *texts.emplace_back(
        std::make_unique<Written>(Written{std::move(prompt), exec::TextStream(model.tokenizer, *stops)}));
    const auto submitted =
        server->submit({.prompt = std::move(*tokens),
                        .tokens = answers.tokens,
                        .sampling = answers.sampling,
                        .biases = *biases,
                        .emit = [&text](index, exec::Token token) { return text.push(token); },
                        .ended = [&text](index, End end, const Status& status) { text.finish(end, status); }});
    if (!submitted)
      return wrong("line " + std::to_string(texts.size()) + " of " + quote(options.prompts) + ": " +
                   std::string(submitted.error().message()));
  }

  std::size_t printed = 0;
  bool failed = false;
  Status status;
  const double seconds = measure::seconds([&] {
    while (!server->idle() && (status = server->step()).ok()) {
      for (; printed < texts.size() && texts[printed]->done; ++printed) {
        std::printf("%s\n", texts[printed]->line().c_str());
        failed = failed || texts[printed]->end == End::failed;
      }
      std::fflush(stdout);
    }
  });
  if (!status.ok()) return wrong(status);
  index written = 0;
  for (const auto& text : texts) written += text->tokens;
  std::fprintf(stderr,
               "%zu texts, %ld tokens of prompts (%ld of them were in the cache), %ld new ones in %.2f s: %.1f tok/s; "
               "%ld preempted, %ld of them swapped\n",
               texts.size(), static_cast<long>(read), static_cast<long>(server->batcher().reused()),
               static_cast<long>(written), seconds, static_cast<double>(written) / seconds,
               static_cast<long>(server->batcher().preemptions()), static_cast<long>(server->batcher().swaps()));
  return failed ? 1 : 0;
}

}  // namespace inlay::tools
