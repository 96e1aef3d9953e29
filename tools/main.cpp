// `inlay`: the operators at work. Text and results go to standard output, figures and progress to
// standard error. Wrong input gives one line and exit code 2.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <inlay/core/version.hpp>
#include <inlay/cpu.hpp>

#include "tools/commands.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

// Where the words of the command line ended that are commands: the application, or a group of commands.
const CLI::App& last_command(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : last_command(*parsed.front());
}

// A command is missing there, or something else stands in its place. CLI11 says "A subcommand is required" to both.
int no_command(const CLI::App& there) {
  std::string path = there.get_name(), known;
  for (const CLI::App* each = there.get_parent(); each != nullptr; each = each->get_parent())
    path = each->get_name() + " " + path;
  for (const CLI::App* command : there.get_subcommands([](const CLI::App*) { return true; }))
    known += (known.empty() ? "" : " ") + command->get_name();
  const auto words = there.remaining();
  const std::string problem = words.empty() ? "a command is missing" : words.front() + " is no command";
  return wrong(problem + "; " + path + " has: " + known + " (see " + path + " --help)");
}

// Cpu takes its best level where INLAY_ISA names none: right for a library, a trap for who compares levels by hand.
Status check_environment() {
  const char* forced = std::getenv("INLAY_ISA");
  if (forced == nullptr || *forced == 0) return {};
  const auto isa = available_isa(forced);
  return isa ? Status() : Status(isa.error().code(), "INLAY_ISA: " + std::string(isa.error().message()));
}

// A command that this build lacks, which says what it needs.
[[maybe_unused]] void add_missing(CLI::App& app, Command& chosen, const std::string& name, const std::string& does,
                                  const std::string& needs) {
  app.add_subcommand(name, does)->prefix_command()->callback([&chosen, message = name + " needs " + needs] {
    chosen = [message] { return wrong(message); };
  });
}

int main(int argc, char** argv) {
  CLI::App app("Inlay: operators for LLM inference, and a thin executor over them", "inlay");
  app.set_version_flag("--version", "inlay " INLAY_VERSION);
  app.require_subcommand(1);
  Command chosen;
  add_run(app, chosen);
  add_eval(app, chosen);
  add_logits(app, chosen);
  add_inspect(app, chosen);
#ifdef INLAY_EVERY_OPERATOR
  add_verify(app, chosen);
#else
  add_missing(app, chosen, "verify", "Check kernels against the operators (this build lacks it)",
              "every operator, of which this build has some (INLAY_KERNELS); let scripts/run.sh verify build them");
#endif
  add_convert(app, chosen);
#ifdef INLAY_HAS_STUDIES
  add_bench(app, chosen);
  add_plan(app, chosen);
  add_profile(app, chosen);
  add_simulate(app, chosen);
#else
  for (const char* name : {"bench", "plan", "profile", "simulate"})
    add_missing(app, chosen, name, "Measure and plan (this build lacks it)",
                "a part that this build was made without; configure with -DINLAY_STUDIES=ON, or let scripts/run.sh " +
                    std::string(name) + " build it");
#endif
#ifdef INLAY_HAS_NPU
  add_npu(app, chosen);
#endif
#ifdef INLAY_HAS_CL
  add_tune(app, chosen);
#endif
  add_devices(app, chosen);
  add_calibrate(app, chosen);
#ifdef INLAY_HAS_SERVE
  add_serve(app, chosen);
#else
  add_missing(app, chosen, "serve", "Answer OpenAI's protocol over HTTP (this build lacks it)",
              "cpp-httplib 0.11, which this build was made without; install libcpp-httplib-dev and configure with "
              "-DINLAY_SERVE=ON, or let scripts/run.sh serve do it");
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    const CLI::App& there = last_command(app);
    if (there.get_require_subcommand_min() > 0) return no_command(there);
    return wrong(std::string(error.what()) + " (see inlay --help)");
  }
  if (Status status = check_environment(); !status.ok()) return wrong(status);
  try {
    return chosen();
  } catch (const std::exception& error) {  // std::bad_alloc: the library itself throws nothing
    return wrong(error.what());
  }
}

}  // namespace

}  // namespace inlay::tools

int main(int argc, char** argv) { return inlay::tools::main(argc, argv); }
