// inlay verify: ONNX backend node tests through our operators.
#include <iostream>
#include <memory>

#include "tools/commands.hpp"
#include "tools/onnx/verify.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

void add_verify(CLI::App& app, Command& chosen) {
  struct Options {
    std::vector<std::string> directories;
    std::string backend = "cpu", isa, device;
    int threads = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App& command =
      *app.add_subcommand("verify", "Run ONNX backend node tests (model.onnx and .pb files) through the operators");
  command.add_option("directories", options->directories, "Cases, or folders of cases")->required();
  command.add_option("--backend", options->backend)->check(CLI::IsMember(backends()));
  add_device(command, options->device);
  command.add_option("--isa", options->isa, "Instruction set of the cpu backend: see inlay devices");
  command.add_option("--threads", options->threads)->check(CLI::Range(0, 1024));
  command.callback([options, &chosen] {
    chosen = [options] {
      ModelOptions settings;
      settings.isa = options->isa;
      settings.device = options->device;
      settings.threads = options->threads;
      auto run = make_runner(settings, options->backend);
      return run ? verify(*run, options->directories, std::cout, std::cerr) : wrong(run.error());
    };
  });
}

}  // namespace inlay::tools
