// inlay npu: what the timing model says of an operator on a described device, and how far that can be believed.
#include <cstdio>
#include <memory>

#include "npu_kernels/backend/descriptions.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/estimate/rank.hpp"
#include "tile_machine/events/log_file.hpp"
#include "tile_machine/time/picture.hpp"
#include "tile_machine/time/roofline.hpp"
#include "tile_machine/time/trace.hpp"
#include "tools/commands.hpp"
#include "tools/npu/check.hpp"
#include "tools/npu/emit.hpp"
#include "tools/npu/fit.hpp"
#include "tools/npu/planned.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct NpuCommand {
  std::string op, shape, device, trace, picture, log, activations = "exact";
  std::vector<std::string> pair;  // of rank
  std::uint32_t cores = 0, samples = 100;
  std::uint64_t seed = 1;
};

// A plan, and everything that is read from it.
struct Timed {
  npu::Device device;
  npu::Plan plan;
  npu::Timeline timeline;
  npu::Roofline roof;
};

Expected<Timed> timed(const NpuOptions& options, const NpuCommand& command) {
  auto planned = plan_of(options, command.op, command.shape);
  if (!planned) return failure(std::move(planned.error()));
  Timed result{std::move(planned->device), std::move(planned->plan), {}, {}};
  auto timeline = npu::time_events(result.plan.log, result.device);
  if (!timeline) return failure(std::move(timeline.error()));
  result.timeline = std::move(*timeline);
  result.roof = npu::roofline(result.plan.log, result.device, result.timeline, result.plan.problem);
  return result;
}

Expected<NpuOptions> options_of(const NpuCommand& command) {
  NpuOptions options;
  options.device = command.device;
  options.cores = command.cores;
  options.activations = command.activations == "f16" ? NpuActivations::f16 : NpuActivations::exact;
  auto npu = Npu::make(options);  // completes the device's name, refuses one that there is not
  if (!npu) return failure(std::move(npu.error()));
  return npu->options();
}

void print_line(const Timed& of) {
  const npu::Bound& own = of.roof.bounds[of.roof.bounding];
  std::printf("%.0f cycles, %.2f us at %.3g GHz; %.1f%% of the problem's roofline, %.1f%% of the program's (%s)\n",
              of.roof.makespan, of.roof.makespan / (of.device.ghz * 1e3), of.device.ghz, 100 * of.roof.problem_share(),
              100 * of.roof.share(), own.resource.c_str());
}

// What the program costs beside.
void print_host(const npu::Device& device) {
  const npu::HostCost& host = device.host;
  std::printf("and %.3g us for its launch, or %.3g behind another program; a host that waits knows %.3g us later\n",
              host.launch_us, host.dispatch_us, host.sync_us);
  const npu::Compile& compile = device.compile;
  if (compile.fixed_ms > 0 || compile.per_token_ms > 0)
    std::printf("before: %.3g ms and %.3g ms a token to make a static graph that holds it, for each length\n",
                compile.fixed_ms, compile.per_token_ms);
}

// Each pipe's work, of the busiest core.
void print_pipes(const Timed& of) {
  std::printf("\nutilisation of pipes, of the busiest core\n");
  for (const npu::Bound& bound : of.roof.bounds)
    if (bound.busy > 0) std::printf("  %-24s %5.1f%%\n", bound.resource.c_str(), 100 * bound.busy / of.roof.makespan);
}

// Long logs of one operator repeat themselves: what is redundant in them is so in a part, too.
void print_redundant_syncs(const Timed& of) {
  constexpr std::size_t most = 200000;
  if (of.plan.log.entries.size() > most) {
    std::printf("\nredundant syncs: not looked for in %zu entries; a smaller shape has the same lines\n",
                of.plan.log.entries.size());
    return;
  }
  const std::vector<npu::Report> redundant = npu::redundant_syncs(of.plan.log, of.device);
  std::printf("\nredundant syncs%s\n", redundant.empty() ? ": none" : "");
  for (const npu::Report& report : redundant) std::printf("  %s\n", report.message.c_str());
}

int show(const NpuCommand& command) {
  auto options = options_of(command);
  if (!options) return wrong(options.error());
  auto as_it_is = timed(*options, command);
  if (!as_it_is) return wrong(as_it_is.error());
  if (!command.trace.empty())
    if (Status status = npu::write_trace(command.trace, as_it_is->plan.log, as_it_is->device, as_it_is->timeline);
        !status.ok())
      return wrong(status);
  if (!command.log.empty())
    if (Status status = npu::save_log(command.log, as_it_is->plan.log, as_it_is->device, command.op); !status.ok())
      return wrong(status);
  if (!command.picture.empty()) {
    const std::string title =
        command.op + (command.shape.empty() ? "" : " " + command.shape) + " on " + as_it_is->device.name;
    const std::string svg = npu::picture_svg(as_it_is->plan.log, as_it_is->device, as_it_is->timeline, title);
    if (Status status = npu::write_picture(command.picture, svg); !status.ok()) return wrong(status);
  }

  std::printf("%s on %s\n", command.op.c_str(), as_it_is->device.name.c_str());
  print_line(*as_it_is);
  print_host(as_it_is->device);
  print_pipes(*as_it_is);
  std::printf("\n%s",
              npu::summary(as_it_is->plan.log, as_it_is->device, as_it_is->timeline, as_it_is->plan.problem).c_str());
  print_redundant_syncs(*as_it_is);
  if (!command.trace.empty()) std::printf("\ntrace: %s, for ui.perfetto.dev\n", command.trace.c_str());
  return 0;
}

// "linear:m=1,n=4096,k=4096"
Expected<npu::EventLog> events_of(const NpuOptions& options, const std::string& spec) {
  const std::size_t colon = spec.find(':');
  auto planned = plan_of(options, spec.substr(0, colon), colon == spec.npos ? "" : spec.substr(colon + 1));
  if (!planned) return failure(planned.error().code(), spec + ": " + std::string(planned.error().message()));
  return std::move(planned->plan.log);
}

int rank(const NpuCommand& command) {
  auto options = options_of(command);
  if (!options) return wrong(options.error());
  auto description = npu::description_of(options->device);
  if (!description) return wrong(description.error());
  auto a = events_of(*options, command.pair[0]), b = events_of(*options, command.pair[1]);
  if (!a) return wrong(a.error());
  if (!b) return wrong(b.error());
  const auto ranking = npu::rank(*description, *a, *b, {.samples = command.samples, .seed = command.seed});
  if (!ranking) return wrong(ranking.error());
  std::printf("%s", npu::describe(*ranking, command.pair[0], command.pair[1]).c_str());
  return 0;
}

void add_machine(CLI::App& command, NpuCommand& options) {
  command.add_option("--device", options.device,
                     "A description's name, or the path of one (default: INLAY_NPU_DEVICE, else ascend-a2-like)");
  command.add_option("--cores", options.cores, "Of the device, that programs may use (0: all)")
      ->check(CLI::Range(0, 1 << 16));
  command.add_option("--activations", options.activations, "f32 operands of the matrix unit in two halves, or rounded")
      ->check(CLI::IsMember({"exact", "f16"}));
}

}  // namespace

void add_npu(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<NpuCommand>();
  CLI::App& command = *app.add_subcommand("npu", "What the NPU model says of an operator: cycles, bounds, stalls");
  command.require_subcommand(0, 1);
  command.add_option("operator", options->op, "Its name: add, linear, paged_attention ..");
  command.add_option("--shape", options->shape, "Its sizes, key=value,key=value (a wrong key lists them)");
  command.add_option("--trace", options->trace, "A file for the timeline, as Perfetto reads it");
  command.add_option("--picture", options->picture, "A file for the first core's timeline as a picture, SVG");
  command.add_option("--log", options->log, "A file for the event log, as inlay npu check reads it");
  add_machine(command, *options);
  add_npu_check(command, chosen);
  CLI::App& ranked = *command.add_subcommand("rank", "Which of two is faster, where the device's figures are assumed");
  ranked.add_option("pair", options->pair, "Two of OPERATOR:key=value,key=value")->required()->expected(2);
  ranked.add_option("--samples", options->samples, "Devices drawn")->check(CLI::Range(1, 100000));
  ranked.add_option("--seed", options->seed, "Equal seeds draw equal devices");
  add_machine(ranked, *options);
  ranked.callback([options, &chosen] { chosen = [options] { return rank(*options); }; });
  add_npu_emit(command, chosen);
  add_npu_fit(command, chosen);
  command.callback([options, &chosen, &command] {
    if (command.get_subcommands().empty()) chosen = [options] { return show(*options); };
  });
}

}  // namespace inlay::tools
