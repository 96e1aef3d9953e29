// inlay bench serve: requests of a trace arrive at their times and are answered together (inlay/exec/serve/server.hpp).
// Printed are the tokens a second of all, and of each request the time to its first token (TTFT) and from each token
// to the next (TPOT), as half, nine tenths and 99 of 100 of them have it at most.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/exec/serve/server.hpp>

#include "tools/commands.hpp"
#include "tools/ranks.hpp"
#include "tools/server.hpp"

namespace inlay::tools {

namespace {

using Clock = std::chrono::steady_clock;

struct ServeOptions {
  ModelOptions model;
  std::string trace;
  TextsOptions texts;
};

// A line of the trace, and how it went. Times are seconds from the first arrival's clock on.
struct Arrival {
  double at;
  std::vector<exec::Token> prompt;
  index tokens;  // new ones, all of which it gets: nothing ends it
  std::vector<double> times = {};
};

constexpr index most_tokens = 1 << 20;
constexpr double most_seconds = 1e6;

// {"at": 0.25, "prompt": "Once", "tokens": 64}; the prompt may be token ids, or a number: so many, other ones in each
// line.
Expected<Arrival> arrival_of(const std::string& line, std::size_t number, const exec::Tokenizer& tokenizer) {
  const auto wrong_line = [&](const std::string& what) {
    return failure(invalid("--trace: line " + std::to_string(number) + " " + what));
  };
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return wrong_line("is no JSON object");
  for (const auto& [name, value] : object.items())
    if (name != "at" && name != "prompt" && name != "tokens")
      return wrong_line("has " + quote(name) + "; it must have at, prompt and tokens");
  const auto at = object.find("at"), prompt = object.find("prompt"), tokens = object.find("tokens");
  const auto is_count = [&](const auto& value) {
    return value != object.end() && value->is_number_unsigned() &&
           value->template get<std::uint64_t>() <= static_cast<std::uint64_t>(most_tokens) &&
           value->template get<std::uint64_t>() >= 1;
  };
  const index vocab = tokenizer.vocab_size();
  const double seconds = at != object.end() && at->is_number() ? at->get<double>() : -1;
  if (!(seconds >= 0 && seconds <= most_seconds)) return wrong_line("must have at, seconds in 0..1000000");
  if (!is_count(tokens)) return wrong_line("must have tokens, a number in 1.." + std::to_string(most_tokens));
  Arrival arrival{.at = seconds, .prompt = {}, .tokens = tokens->get<index>()};
  if (is_count(prompt)) {
    arrival.prompt = any_prompt(prompt->get<index>(), vocab);
    for (exec::Token& token : arrival.prompt)  // no two lines begin alike
      token = static_cast<exec::Token>((token + static_cast<index>(number) * 7919) % vocab);
  } else if (prompt != object.end() && prompt->is_array()) {
    for (const auto& id : *prompt) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab))
        return wrong_line("has the token " + printable(id.dump(), 60) + " in its prompt; it must be in 0.." +
                          std::to_string(vocab - 1));
      arrival.prompt.push_back(id.get<exec::Token>());
    }
  } else if (prompt != object.end() && prompt->is_string()) {
    auto encoded = tokenizer.encode(prompt->get<std::string>());
    if (!encoded) return wrong_line("has a prompt that is no text: " + std::string(encoded.error().message()));
    arrival.prompt = std::move(*encoded);
  }
  if (arrival.prompt.empty())
    return wrong_line("must have prompt, a text, token ids, or a number of tokens in 1.." +
                      std::to_string(most_tokens));
  return arrival;
}

Expected<std::vector<Arrival>> read_trace(const std::string& path, const exec::Tokenizer& tokenizer) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return failure(StatusCode::not_found, "--trace: " + quote(path) + " cannot be read");
  std::vector<Arrival> all;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    auto arrival = arrival_of(line, ++number, tokenizer);
    if (!arrival) return failure(std::move(arrival.error()));
    all.push_back(std::move(*arrival));
  }
  if (all.empty()) return failure(StatusCode::invalid_argument, "--trace: " + quote(path) + " has no line");
  std::stable_sort(all.begin(), all.end(), [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  return all;
}

// The smallest value that this share of all is not above.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = std::ceil(share * static_cast<double>(values.size())) - 1;
  return values[static_cast<std::size_t>(std::max(place, 0.0))];
}

void print_times(const char* what, const std::vector<double>& times) {
  if (times.empty()) return;
  std::printf("%s  p50 %9.2f  p90 %9.2f  p99 %9.2f ms\n", what, 1e3 * quantile(times, 0.5), 1e3 * quantile(times, 0.9),
              1e3 * quantile(times, 0.99));
}

void print(const std::vector<Arrival>& all, double seconds, const exec::Server& server) {
  index prompts = 0, written = 0;
  std::vector<double> first, each;
  for (const Arrival& arrival : all) {
    const auto count = static_cast<index>(arrival.times.size());
    prompts += static_cast<index>(arrival.prompt.size()), written += count;
    if (count > 0) first.push_back(arrival.times.front() - arrival.at);
    if (count > 1) each.push_back((arrival.times.back() - arrival.times.front()) / static_cast<double>(count - 1));
  }
  std::printf(
      "%zu requests in %.2f s: %ld tokens of prompts (%ld of them were in the cache), %ld new ones, %.1f tok/s; "
      "%ld preempted, %ld of them swapped\n",
      all.size(), seconds, static_cast<long>(prompts), static_cast<long>(server.batcher().reused()),
      static_cast<long>(written), static_cast<double>(written) / seconds,
      static_cast<long>(server.batcher().preemptions()), static_cast<long>(server.batcher().swaps()));
  print_times("TTFT", first);
  print_times("TPOT", each);
}

int bench(const ServeOptions& options) {
  auto model = open_model(options.model);
  if (!model) return wrong(model.error());
  auto trace = read_trace(options.trace, model->tokenizer);
  if (!trace) return wrong(trace.error());
  auto server = make_server(options.model, *model, options.texts);
  if (!server) return wrong(server.error());
  for (const Arrival& arrival : *trace)
    if (static_cast<index>(arrival.prompt.size()) + arrival.tokens - 1 > server->context())
      return wrong("--trace: a request has " + std::to_string(arrival.prompt.size()) + " tokens and asks for " +
                   std::to_string(arrival.tokens) + "; together they must fit the context of " +
                   std::to_string(server->context()));

  const Clock::time_point begin = Clock::now();
  const auto now = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  Status failed;
  for (std::size_t next = 0; next < trace->size() || !server->idle();) {
    for (; next < trace->size() && (*trace)[next].at <= now(); ++next) {
      Arrival& arrival = (*trace)[next];
      const auto submitted = server->submit({.prompt = arrival.prompt,
                                             .tokens = arrival.tokens,
                                             .ignore_eos = true,
                                             .emit =
                                                 [&arrival, &now](index, exec::Token) {
                                                   arrival.times.push_back(now());
                                                   return true;
                                                 },
                                             .ended =
                                                 [&failed](index, exec::TextRequest::End end, const Status& status) {
                                                   if (end == exec::TextRequest::End::failed)
                                                     failed = {status.code(), status.message()};
                                                 }});
      if (!submitted) return wrong(submitted.error());
    }
    if (server->idle())
      std::this_thread::sleep_until(
          begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>((*trace)[next].at)));
    else if (Status status = server->step(); !status.ok())
      return wrong(status);
  }
  if (!failed.ok()) return wrong(failed);
  print(*trace, now(), *server);
  return 0;
}

}  // namespace

void add_bench_serve(CLI::App& group, Command& chosen) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App& command = *group.add_subcommand("serve", "Answer the requests of a trace as they arrive");
  options->model.add_to(command);
  command
      .add_option("--trace", options->trace,
                  "A JSON object a line: at, seconds; prompt, a text, token ids or a number of them; tokens, new ones")
      ->required();
  options->texts.add_to(command);
  add_ranks(command, options->model.ranks, options->model.cut);
  command.callback([options, &chosen] {
    chosen = [options] {
      return with_ranks(
          options->model,
          [&](const ModelOptions& of_rank) {
            ServeOptions own = *options;
            own.model = of_rank;
            return bench(own);
          },
          [&](const ModelOptions& of_rank) { return follow_server(of_rank, options->texts); });
    };
  });
}

}  // namespace inlay::tools
