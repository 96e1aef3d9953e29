#include "tools/npu/emit.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include "tile_machine/emit/ascend_c.hpp"
#include "tile_machine/emit/verb_table.hpp"
#include "tools/npu/planned.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct EmitCommand {
  std::string op, shape, device, output;
  std::uint32_t cores = 0;
  bool verbs = false;
};

int emit(const EmitCommand& command) {
  if (command.verbs) return std::fputs(npu::emit::verb_table_text().c_str(), stdout) < 0 ? 1 : 0;
  NpuOptions options;
  options.device = command.device;
  options.cores = command.cores;
  npu::VerbLog verbs;
  const auto planned = plan_of(options, command.op, command.shape, &verbs);
  if (!planned) return wrong(planned.error());
  const std::string about = command.op + (command.shape.empty() ? "" : " " + command.shape) + " on " +
                            planned->device.name +
                            ", written by inlay npu emit from its tile program: this shape alone.";
  const auto text = npu::emit::ascend_c(verbs, planned->device, command.op, about);
  if (!text) return wrong(text.error());
  return write_output(command.output, *text);
}

}  // namespace

void add_npu_emit(CLI::App& group, Command& chosen) {
  auto options = std::make_shared<EmitCommand>();
  CLI::App& command = *group.add_subcommand("emit", "An operator's tile program as one source file in Ascend C");
  command.add_option("--op", options->op, "Its name: rms_norm ..");
  command.add_option("--shape", options->shape, "Its sizes, key=value,key=value (a wrong key lists them)");
  command.add_option("--device", options->device,
                     "A description's name, or the path of one (default: INLAY_NPU_DEVICE, else ascend-a2-like)");
  command.add_option("--cores", options->cores, "Of the device, that the kernel is launched on (0: all)")
      ->check(CLI::Range(0, 1 << 16));
  command.add_option("-o,--output", options->output, "A file for the source (default: stdout)");
  command.add_flag("--verbs", options->verbs, "The table that verbs are written out by, as docs/npu_emit.md has it");
  command.callback([options, &chosen] { chosen = [options] { return emit(*options); }; });
}

}  // namespace inlay::tools
