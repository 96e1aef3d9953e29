// inlay simulate: the ablations of three papers from calibration inputs alone, as docs/fidelity.md has them.
#include <memory>
#include <string>

#include "tools/commands.hpp"
#include "tools/session.hpp"
#include "tools/simulate/report.hpp"

namespace inlay::tools {

void add_simulate(CLI::App& app, Command& chosen) {
  auto& command = *app.add_subcommand(
      "simulate", "Predict the ablations of HeteroLLM, llm.npu and vLLM-Ascend, beside what they published");
  auto file = std::make_shared<std::string>();
  command.add_option("-o,--output", *file, "Write the page there (docs/fidelity.md); else to standard output");
  command.callback([&chosen, file] { chosen = [file] { return write_output(*file, fidelity_page()); }; });
}

}  // namespace inlay::tools
