// inlay profile: what each operator of a model takes on this machine's processor, by rows, as `inlay plan --devices`
// reads it.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/exec/split/device_list.hpp>
#include <inlay/exec/split/recorded_prompt.hpp>

#include "tools/commands.hpp"
#include "tools/plan/planned_model.hpp"
#include "tools/session.hpp"

namespace inlay::tools {
namespace {

struct Options {
  std::string model, name = "cpu", isa, pool = "inlay", output;
  std::vector<index> rows = {1, 16, 64, 256};
  int threads = 0, repeats = 3;
};

// A prompt of one chunk, computed step after step: once to warm up, then so often.
Status measure(const Options& options, const Cpu& cpu, index rows, exec::Profile& profile) {
  auto model = planned_model(options.model, cpu.parallel());
  if (!model) return std::move(model.error());
  auto prompt = exec::RecordedPrompt<Cpu>::record(model->config, std::move(model->weights),
                                                  any_prompt(rows, model->config.vocab), rows);
  if (!prompt) return std::move(prompt.error());
  const exec::StepCompute compute = exec::computed_by(cpu);
  const exec::StepGraph& graph = (*prompt)->graph();
  const exec::Edges line = exec::Edges::in_order(graph.size());
  const std::vector<std::size_t> placement(static_cast<std::size_t>(graph.size()), 0);
  for (int repeat = 0; repeat <= options.repeats; ++repeat) {
    exec::CpuDevice device({.name = options.name}, compute);
    exec::Device* const devices[] = {&device};
    exec::DeviceTimeline timeline;
    if (Status status =
            exec::run_steps({.graph = graph, .edges = line, .devices = devices, .placement = placement}, timeline);
        !status.ok())
      return status;
    if (repeat == 0) continue;
    for (const exec::DeviceTimeline::Span& span : timeline.spans)
      profile.add(graph.steps()[static_cast<std::size_t>(span.step)], std::max(span.us(), 1e-3));
  }
  return {};
}

int profile(const Options& options) {
  auto cpu = make_cpu(options.isa, options.threads, options.pool);
  if (!cpu) return wrong(cpu.error());
  std::vector<index> rows = options.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  exec::DeviceList list;
  exec::Profile measured(options.name);
  for (const index count : rows) {
    if (Status status = measure(options, *cpu, count, measured); !status.ok()) return wrong(status);
    std::fprintf(stderr, "%ld rows measured\n", static_cast<long>(count));
  }
  list.devices.push_back({.name = options.name, .kind = exec::DeviceKind::cpu, .profile = std::move(measured)});
  const std::string text = list.json() + "\n";
  return write_output(options.output, text);
}

}  // namespace

void add_profile(CLI::App& app, Command& chosen) {
  auto& command =
      *app.add_subcommand("profile", "Measure what each operator of a model takes on this processor, by rows");
  auto options = std::make_shared<Options>();
  command.add_option("model", options->model,
                     "A model file, or a shape as of bench model (none: the model that ships with Inlay)");
  command.add_option("--rows", options->rows, "Tokens of a pass, with commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16));
  command.add_option("--repeats", options->repeats, "Passes that are measured, of each")->check(CLI::Range(1, 1000));
  command.add_option("--name", options->name, "The device's name in the file");
  command.add_option("--isa", options->isa, "Instruction set of the kernels");
  add_threads(command, options->threads, options->pool);
  command.add_option("-o,--output", options->output, "Write the file there; else to standard output");
  command.callback([&chosen, options] { chosen = [options] { return profile(*options); }; });
}

}  // namespace inlay::tools
