// inlay calibrate: how large the activations of a model are, whose linears are of int8: static scales for --scales.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/calibration.hpp>
#include <inlay/model/weights.hpp>

#include "tools/commands.hpp"
#include "tools/run_many.hpp"
#include "tools/session.hpp"

namespace inlay::tools {
namespace {

struct CalibrateOptions {
  std::string model, prompts, output, isa, pool = "inlay";
  exec::CalibrationOptions calibration;
  int threads = 0;
};

int calibrate(const CalibrateOptions& options) {
  auto cpu = make_cpu(options.isa, options.threads, options.pool);
  if (!cpu) return wrong(cpu.error());
  auto lines = prompts_of(options.prompts);
  if (!lines) return wrong(lines.error());
  ModelOptions of_model;
  of_model.model = options.model;
  auto model = open_model(of_model);
  if (!model) return wrong(model.error());
  std::vector<std::vector<exec::Token>> prompts;
  for (const std::string& line : *lines) {
    auto tokens = model->tokenizer.encode(line);
    if (!tokens) return wrong(tokens.error());
    prompts.push_back(std::move(*tokens));
  }
  auto weights = exec::load_weights(model->file, cpu->parallel());
  if (!weights) return wrong(weights.error());
  const auto ranges =
      exec::calibrate(model->file->config, std::move(*weights), std::move(*cpu), prompts, options.calibration);
  if (!ranges) return wrong(ranges.error());
  const std::string text = ranges->json() + "\n";
  std::fprintf(stderr, "%ld tokens of %zu prompts\n", static_cast<long>(ranges->tokens), prompts.size());
  return write_output(options.output, text);
}

}  // namespace

void add_calibrate(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App& command = *app.add_subcommand(
      "calibrate", "How large activations become that linears of int8 read: static scales, for --scales");
  command.add_option("model", options->model,
                     "GGUF file, or a directory with safetensors (default: the model of Inlay)");
  command.add_option("--prompts", options->prompts, "A file with a prompt a line")->required();
  command.add_option("-o,--output", options->output, "Where to write them (default: standard output)");
  command
      .add_option("--percentile", options->calibration.percentile,
                  "Share of the activations that is rounded within the scale; what lies beyond is clipped and added in "
                  "f32")
      ->check(CLI::Range(50.0, 100.0));
  command.add_option("--chunk", options->calibration.chunk, "Tokens of a prompt in one pass")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--isa", options->isa, "Instruction set: see inlay devices");
  add_threads(command, options->threads, options->pool);
  command.callback([options, &chosen] { chosen = [options] { return calibrate(*options); }; });
}

}  // namespace inlay::tools
