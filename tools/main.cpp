// `inlay`: the operators at work. Text and results go to standard output, figures and progress to
// standard error. Wrong input gives one line and exit code 2.
#include <cstdio>
#include <exception>

#include "tools/commands.hpp"

int main(int argc, char** argv) {
  using namespace inlay::tools;
  CLI::App app("Inlay: operators for LLM inference, and a thin executor over them");
  app.require_subcommand(1);
  Command chosen;
  add_run(app, chosen);
  add_eval(app, chosen);
  add_verify(app, chosen);
  add_convert(app, chosen);
  add_bench(app, chosen);
  add_devices(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    std::fprintf(stderr, "inlay: %s (see inlay --help)\n", wrong.what());
    return 2;
  }
  try {
    return chosen();
  } catch (const std::exception& error) {  // std::bad_alloc: the library itself throws nothing
    std::fprintf(stderr, "inlay: %s\n", error.what());
    return 2;
  }
}
