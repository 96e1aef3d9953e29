// inlay tune: which cut of each OpenCL kernel is fastest on a device, every candidate checked against the reference.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "tools/commands.hpp"
#include "tools/session.hpp"
#include "tools/tune/tuner.hpp"

namespace inlay::tools {

namespace {

struct TuneOptions {
  std::string device, shape, output;
  std::vector<std::string> ops;
  Effort effort;
  bool list = false;
};

std::vector<std::string> tunable_ops() {
  std::vector<std::string> ops;
  for (const ClParameter& parameter : cl_parameters())
    if (ops.empty() || ops.back() != parameter.op) ops.emplace_back(parameter.op);
  return ops;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

int list_parameters() {
  for (const ClParameter& p : cl_parameters())
    for (ClShape shape : {ClShape::per_item, ClShape::per_group}) {
      if (p.of(shape).list().size() < 2) continue;
      std::string values;
      for (int value : p.of(shape).list())
        values += " " + std::to_string(value) + (value == p.of(shape).usual ? "*" : "");
      std::printf("%-24s %s %-36s%s%s\n", (std::string(p.op) + "." + std::string(p.name)).c_str(),
                  std::string(name(shape)).c_str(), values.c_str(), std::string(p.what).c_str(),
                  p.same_bits ? "" : " (last bits differ)");
    }
  return 0;
}

void print(const Answer& answer) {
  const ClTuned& t = answer.tuned;
  const std::string parameter = t.op + "." + t.name;
  for (const Answer::Dropped& dropped : answer.dropped)
    std::printf("%-24s %6d  dropped: %s\n", parameter.c_str(), dropped.value, dropped.reason.c_str());
  for (const ClTuned::Case& c : t.cases)
    std::printf("%-24s %6d %10.2f us %6d %10.2f us  %+6.1f%%  %s %s\n", parameter.c_str(), t.usual,
                c.usual_seconds * 1e6, answer.best, c.seconds * 1e6, 100 * (c.usual_seconds / c.seconds - 1),
                t.value != t.usual ? "taken " : "      ", c.what.c_str());
  std::fflush(stdout);
}

int tune_device(const TuneOptions& options) {
  // Before minutes of work.
  if (!options.output.empty())
    if (Status status = check_cl_tuning(options.output); !status.ok()) return wrong(status);
  const ClShape shape = shape_called(options.shape).value_or(ClShape::by_device);
  auto cl = Cl::make({.device = options.device, .shape = shape, .tuning = "none"});
  if (!cl) return wrong(cl.error());
  const ClShape chosen = cl->options().shape;
  std::printf("%s, driver %s, %s shape\n", cl->device().name.c_str(), cl->device().driver.c_str(),
              std::string(name(chosen)).c_str());
  std::printf("%-24s %19s %20s    gain          call\n", "parameter", "as it is", "best other");
  std::vector<ClTuned> found;
  bool right = true;
  for (const ClParameter& parameter : cl_parameters()) {
    if (!options.ops.empty() && std::ranges::find(options.ops, parameter.op) == options.ops.end()) continue;
    const Question question = question_of(*cl, parameter);
    if (question.values.size() < 2) continue;
    const auto cases = cases_of(*cl, parameter, Size::typical);
    if (!cases) return wrong(cases.error());
    const auto answer = tune(question, *cases, options.effort);
    if (!answer) return wrong(answer.error());
    print(*answer);
    right = right && answer->dropped.empty();
    found.push_back(answer->tuned);
  }
  const auto taken = std::ranges::count_if(found, [](const ClTuned& one) { return one.value != one.usual; });
  std::printf("%zu parameters, %td with another value than before\n", found.size(), taken);
  if (!options.output.empty())
    if (Status status = write_cl_tuning(options.output, *cl, today(), found); !status.ok()) return wrong(status);
  return right ? 0 : 1;
}

}  // namespace

void add_tune(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App& command = *app.add_subcommand(
      "tune",
      "Find the fastest cut of each OpenCL kernel on a device; each candidate is checked against the reference");
  add_device(command, options->device);
  command.add_option("--shape", options->shape, "Shape of the kernels; left out: that of the device")
      ->check(CLI::IsMember({"per_item", "per_group"}));
  command.add_option("--op", options->ops, "Operators to tune; left out: all")->check(CLI::IsMember(tunable_ops()));
  command.add_option("--output", options->output, "File to write or to add to: for INLAY_CL_TUNING, ClOptions::tuning");
  command.add_option("--seconds", options->effort.seconds, "Measuring time of each parameter")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command.add_option("--margin", options->effort.margin, "What a value must save to be taken")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  command.add_flag("--list", options->list, "Print parameters, their values (usual: *) and what they are");
  command.callback(
      [options, &chosen] { chosen = [options] { return options->list ? list_parameters() : tune_device(*options); }; });
}

}  // namespace inlay::tools
