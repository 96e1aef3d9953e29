// inlay verify: ONNX's node tests through our operators, or our random cases through somebody's kernel.
#include <iostream>
#include <memory>

#include "tools/commands.hpp"
#include "tools/kernels/verify_kernel.hpp"
#include "tools/session.hpp"
#ifdef INLAY_HAS_ONNX
#include "tools/onnx/verify.hpp"
#endif

namespace inlay::tools {

namespace {

struct VerifyOptions {
  std::vector<std::string> directories;
  std::string backend = "cpu", isa, device;
  int threads = 0;
  KernelOptions kernel;
};

int run(const VerifyOptions& options) {
  if (!options.kernel.library.empty()) return verify_kernel(options.kernel, std::cout);
#ifdef INLAY_HAS_ONNX
  if (options.directories.empty())
    return wrong(invalid("there is neither a case nor --kernel; it must be one of them"));
  ModelOptions settings;
  settings.isa = options.isa;
  settings.device = options.device;
  settings.threads = options.threads;
  auto run = make_runner(settings, options.backend);
  return run ? verify(*run, options.directories, std::cout, std::cerr) : wrong(run.error());
#else
  return wrong(invalid("--kernel is missing; it must be given, as this build lacks ONNX's node tests (INLAY_ONNX)"));
#endif
}

}  // namespace

void add_verify(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App& command = *app.add_subcommand(
      "verify", "Run ONNX backend node tests through the operators, or random cases through a kernel of yours");
#ifdef INLAY_HAS_ONNX
  CLI::Option* const directories =
      command.add_option("directories", options->directories, "Cases (model.onnx and .pb files), or folders of cases");
  command.add_option("--backend", options->backend)->check(CLI::IsMember(backends()));
  add_device(command, options->device);
  command.add_option("--isa", options->isa, "Instruction set of the cpu backend: see inlay devices");
  command.add_option("--threads", options->threads)->check(CLI::Range(0, 1024));
#endif
  KernelOptions& kernel = options->kernel;
  CLI::Option* const library = command.add_option(
      "--kernel", kernel.library,
      "A shared library with a function like inlay_run, or a file of Python (docs/check_a_kernel.md)");
  CLI::Option* const op = command.add_option("--op", kernel.op, "The operator that it computes")->needs(library);
  command.add_option("--symbol", kernel.symbol, "The name of its function (inlay_run; of Python the operator's)")
      ->needs(library);
  command.add_option("--cases", kernel.cases, "How many cases (200)")->check(CLI::Range(1, 1000000))->needs(library);
  command.add_option("--seed", kernel.seed, "Of the first case (1)")->needs(library);
  command
      .add_flag("--score", kernel.score,
                "Tell how many bugs, planted into the reference, the cases that the kernel computes would have told")
      ->needs(library);
  library->needs(op);
#ifdef INLAY_HAS_ONNX
  library->excludes(directories);
#endif
  command.callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace inlay::tools
