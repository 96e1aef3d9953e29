// inlay bench contention: what a model keeps of its quiet speed beside processes that want the same processors.
//
// A run measures each count of busy loops in turn, so that what else the machine does meets all of them alike; a share
// is that of the same run's quiet speed. The loops are processes of our own session, which a scheduler with groups
// counts as our equals: k of them beside t threads on p processors leave each p / (t + k) of one.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "measure/timing.hpp"
#include "tools/bench/busy_loops.hpp"
#include "tools/commands.hpp"
#include "tools/model_shapes.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct Options {
  std::string shape, type = "w4a16";  // no shape: the model of Inlay
  std::vector<int> loops = {1, 2, 4};
  index prefill = 64;
  int runs = 10;
  double seconds = 0.5;
  ModelOptions model;
};

Expected<exec::Session> open(const Options& options) {
  if (options.shape.empty()) {
    auto model = open_model(options.model);
    if (!model) return failure(std::move(model.error()));
    return make_session(options.model, model->file, "cpu");
  }
  auto config = model_shape(options.shape);
  if (!config) return failure(std::move(config.error()));
  return make_random_session(options.model, *config, options.type, {.context = 512, .chunk = 512});
}

// Tokens a second of passes that take `least` seconds together: whole prompts, or single tokens at depths up to 256.
double prefill_speed(exec::Session& session, index tokens, double least, Status& status) {
  const std::vector<exec::Token> ids = any_prompt(tokens, session.config().vocab);
  double time = 0;
  index done = 0;
  for (; time < least && status.ok(); done += tokens) {
    session.reset();
    time += measure::seconds([&] { status = session.append(ids); });
  }
  return static_cast<double>(done) / time;
}

double decode_speed(exec::Session& session, double least, Status& status) {
  double time = 0;
  index done = 0;
  for (; time < least && status.ok(); ++done) {
    if (done % 256 == 0) session.reset();
    time += measure::seconds([&] { status = session.decode(static_cast<exec::Token>(done % 999 + 2)); });
  }
  return static_cast<double>(done) / time;
}

template <class Speed> int table(const char* what, const Options& options, BusyLoops& loops, Speed&& speed) {
  std::vector<double> quiet;
  std::vector<std::vector<double>> rates(options.loops.size()), shares(options.loops.size());
  Status status;
  speed(0.1, status);  // touches memory for the first time
  for (int run = 0; run < options.runs && status.ok(); ++run) {
    quiet.push_back(speed(options.seconds, status));
    for (std::size_t i = 0; i < options.loops.size(); ++i) {
      loops.run(options.loops[i]);
      rates[i].push_back(speed(options.seconds, status));
      loops.run(0);
      shares[i].push_back(rates[i].back() / quiet.back());
    }
  }
  if (!status.ok()) return wrong(status);
  std::printf("%-8s quiet    median %8.1f tok/s  worst %8.1f tok/s\n", what, measure::median(quiet),
              *std::min_element(quiet.begin(), quiet.end()));
  for (std::size_t i = 0; i < options.loops.size(); ++i)
    std::printf("%-8s %d loops  median %8.1f tok/s  worst %8.1f tok/s  kept: median %5.1f%%, worst %5.1f%%\n", what,
                options.loops[i], measure::median(rates[i]), *std::min_element(rates[i].begin(), rates[i].end()),
                100 * measure::median(shares[i]), 100 * *std::min_element(shares[i].begin(), shares[i].end()));
  std::fflush(stdout);
  return 0;
}

int contention(const Options& options) {
  BusyLoops loops(*std::max_element(options.loops.begin(), options.loops.end()));
  auto session = open(options);
  if (!session) return wrong(session.error());
  if (options.prefill > session->context())
    return wrong("--prefill is " + std::to_string(options.prefill) + "; the context is " +
                 std::to_string(session->context()));
  const int code = table("decode", options, loops,
                         [&](double least, Status& status) { return decode_speed(*session, least, status); });
  if (code != 0 || options.prefill == 0) return code;
  return table("prefill", options, loops,
               [&](double least, Status& status) { return prefill_speed(*session, options.prefill, least, status); });
}

}  // namespace

void add_bench_contention(CLI::App& group, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *group.add_subcommand("contention", "What a model keeps of its speed beside busy processes");
  command.add_option("--shape", options->shape, "Published shape, random weights (default: the model of Inlay)")
      ->check(CLI::IsMember(model_shapes()));
  command.add_option("--type", options->type, "Type of the linears of a shape")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8", "w4a16"}));
  command.add_option("--loops", options->loops, "Busy processes beside it")->check(CLI::Range(1, 64));
  command.add_option("--prefill", options->prefill, "Length of a prompt (0: decode alone)")->check(CLI::Range(0, 512));
  command.add_option("--runs", options->runs, "Runs, each with every count of loops")->check(CLI::Range(1, 1000));
  command.add_option("--seconds", options->seconds, "Least time of a measurement")->check(CLI::Range(0.01, 60.0));
  add_threads(command, options->model.threads, options->model.pool);
  options->model.rounding.add_to(command);
  command.callback([options, &chosen] { chosen = [options] { return contention(*options); }; });
}

}  // namespace inlay::tools
