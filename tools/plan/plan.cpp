// inlay plan: what a model would do on devices that a file describes, or which plans of it a device should hold.
#include "tools/plan/plan.hpp"

#include <memory>

#include "tools/commands.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

void add_plan(CLI::App& app, Command& chosen) {
  auto& command = *app.add_subcommand(
      "plan", "Place a model's prompt on the devices of a file, or choose the sizes of its captured plans");
  auto options = std::make_shared<PlanOptions>();
  command.add_option("model", options->model,
                     "A model file, or a shape as of bench model (none: the model that ships with Inlay)");
  auto* buckets = command.add_flag("--buckets", options->buckets,
                                   "Print sizes of captured plans: Ascend's formula beside those that pad least");
  auto* lengths = command.add_option("--lengths", options->lengths,
                                     "How many tokens steps have: a line each, the length and how many had it");
  auto* domains =
      command
          .add_option("--domains", options->domains,
                      "Communication domains of a device: 1 with ranks of tensors, 1 more with ranks of data")
          ->check(CLI::Range(0, 8));
  auto* aiv = command.add_flag("--aiv", options->unfolded, "HCCL_OP_EXPANSION_MODE is AIV");
  auto* largest =
      command.add_option("--largest", options->largest, "Longer steps run eagerly")->check(CLI::Range(1, 1 << 16));
  auto* count = command.add_option("--count", options->count, "So many sizes (0: as Ascend's streams allow)")
                    ->check(CLI::Range(0, 4096));
  for (auto* option : {lengths, domains, aiv, largest, count}) option->needs(buckets);
  auto* devices = command.add_option("--devices", options->devices, "The file that describes them: docs/devices.md")
                      ->excludes(buckets);
  auto* tokens = command.add_option("--seq", options->tokens, "Tokens of the prompt")->check(CLI::Range(1, 1 << 20));
  auto* chunk = command.add_option("--chunk", options->chunk, "Tokens of a chunk of it")->check(CLI::Range(1, 1 << 16));
  auto* trace =
      command.add_option("--trace", options->trace, "Write what each device does when there, for ui.perfetto.dev");
  for (auto* option : {tokens, chunk, trace}) option->needs(devices);
  command.callback([&chosen, options] {
    chosen = [options] {
      if (options->buckets) return plan_buckets(*options);
      if (!options->devices.empty()) return plan_devices(*options);
      return wrong("plan needs --devices FILE, or --buckets with --lengths FILE");
    };
  });
}

}  // namespace inlay::tools
