#include "tools/npu/check.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <inlay/npu.hpp>

#include "npu_kernels/backend/runtime.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/check/placement.hpp"
#include "tile_machine/events/log_file.hpp"
#include "tile_machine/time/roofline.hpp"
#include "tile_machine/time/trace.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct CheckCommand {
  std::string file, device, trace;
  bool timing = false;
};

void print(const npu::Report& report) {
  std::printf("%s: %s", std::string(name(report.kind)).c_str(), report.message.c_str());
  if (report.repeated > 1) std::printf(" (%llu times)", static_cast<unsigned long long>(report.repeated));
  std::printf("\n");
}

// Where nothing is wrong. Each group of lines is judged by all of the log again: a long one repeats itself.
void print_removable(const npu::EventLog& log, const npu::Device& device) {
  constexpr std::size_t most = 200000;
  if (log.entries.size() > most)
    std::printf("redundant syncs: not looked for in more than %zu entries\n", most);
  else
    for (const npu::Report& report : npu::redundant_syncs(log, device)) print(report);
}

void print_times(const npu::EventLog& log, const npu::Device& device, const Expected<npu::Timeline>& timeline) {
  if (!timeline) return void(std::printf("\nnot timed: %s\n", std::string(timeline.error().message()).c_str()));
  const npu::Roofline roof = npu::roofline(log, device, *timeline);
  std::printf("\n%.0f cycles, %.2f us at %.3g GHz; %.1f%% of the program's roofline (%s)\n\n%s", roof.makespan,
              roof.makespan / (device.ghz * 1e3), device.ghz, 100 * roof.share(),
              roof.bounds[roof.bounding].resource.c_str(), npu::summary(log, device, *timeline).c_str());
}

int check_log(const CheckCommand& command) {
  NpuOptions options;
  options.device = command.device;
  const auto npu = Npu::make(options);
  if (!npu) return wrong(npu.error());
  const npu::Device& device = npu->runtime().device();
  const auto file = npu::load_log(command.file, device);
  if (!file) return wrong(file.error());
  const npu::EventLog& log = file->log;

  std::optional<Expected<npu::Timeline>> timeline;
  if (command.timing || !command.trace.empty()) timeline = npu::time_events(log, device);
  if (!command.trace.empty() && *timeline)
    if (Status status = npu::write_trace(command.trace, log, device, **timeline); !status.ok()) return wrong(status);

  std::printf("%s on %s, %zu entries\n", file->kernel.c_str(), device.name.c_str(), log.entries.size());
  std::vector<npu::Report> reports = npu::misplaced(log, device);
  for (npu::Report& report : npu::check(log, device)) reports.push_back(std::move(report));
  for (const npu::Report& report : reports) print(report);
  std::printf(reports.size() == 1 ? "%zu report\n" : "%zu reports\n", reports.size());
  if (reports.empty()) print_removable(log, device);
  if (timeline) print_times(log, device, *timeline);
  return reports.empty() ? 0 : 1;
}

}  // namespace

void add_npu_check(CLI::App& group, Command& chosen) {
  auto options = std::make_shared<CheckCommand>();
  CLI::App& command = *group.add_subcommand("check", "Prove the synchronisation of a kernel of yours by its event log");
  command.add_option("file", options->file, "The log (docs/npu_import.md; inlay/npu_log.h writes one)")->required();
  command.add_option("--device", options->device,
                     "A description's name, or the path of one (default: INLAY_NPU_DEVICE, else ascend-a2-like)");
  command.add_flag("--timing", options->timing, "Cycles, share of the roofline, each pipe's stalls, the critical path");
  command.add_option("--trace", options->trace, "A file for the timeline, as Perfetto reads it");
  command.callback([options, &chosen] { chosen = [options] { return check_log(*options); }; });
}

}  // namespace inlay::tools
