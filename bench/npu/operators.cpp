// Timing of the operators' programs on the devices of devices/: cycles of the model, not seconds. One line for each
// case of measure/npu_cases.hpp; INLAY_BENCH_SHORT=1: for one.
//   --op NAME        only this one
//   --device NAME    only this one
//   --cores N        at most so many of the device
//   --summary        bounds, stalls and critical path of each
//   --trace FILE     the last case that was run, for ui.perfetto.dev
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "measure/npu_cases.hpp"
#include "measure/timing.hpp"
#include "tile_machine/time/roofline.hpp"
#include "tile_machine/time/trace.hpp"

namespace inlay::npu {
namespace {

// Why the run's bounding resource was not busy all the time: the largest stalls of the queues that feed it.
std::string top_stalls(const Device& device, const Timeline& time, const Roofline& roof) {
  const bool memory = roof.bounding >= device.queues.size();
  std::map<std::string, Tick> sums;
  Tick all = 0;
  for (const LaneTime& lane : time.lanes) {
    if (memory ? !roof.bounds[lane.queue].dma || lane.entries == 0 : lane.queue != roof.bounding) continue;
    all += time.makespan;
    for (const Stall& stall : lane.stalls) sums[describe(stall)] += stall.ticks;
  }
  std::vector<std::pair<Tick, std::string>> sorted;
  for (const auto& [what, ticks] : sums) sorted.emplace_back(ticks, what);
  std::sort(sorted.rbegin(), sorted.rend());
  std::string text;
  constexpr std::size_t shown = 3;
  for (std::size_t i = 0; i < std::min(shown, sorted.size()); ++i) {
    char part[160];
    std::snprintf(part, sizeof part, "%s%s %.1f%%", i ? ", " : "", sorted[i].second.c_str(),
                  100 * static_cast<double>(sorted[i].first) / static_cast<double>(all));
    text += part;
  }
  return text;
}

struct Options {
  std::string op, device, trace;
  std::uint32_t cores = 0;
  bool summary = false;
};

// False: something failed, and was said.
bool report_case(const Case& c, const Options& options) {
  auto device = load_device(std::string(INLAY_SOURCE_DIR) + "/tile_machine/devices/" + std::string(c.device) + ".json");
  if (!device) {
    std::fprintf(stderr, "%s\n", std::string(device.error().message()).c_str());
    return false;
  }
  if (options.cores > 0) device->cores = std::min(device->cores, options.cores);
  const auto [outcome, problem] = run(c, *device);
  for (const Report& report : outcome.reports) std::fprintf(stderr, "%s\n", report.message.c_str());
  const auto time = time_events(outcome.log, *device);
  if (!time) {
    std::fprintf(stderr, "%s\n", std::string(time.error().message()).c_str());
    return false;
  }
  const Roofline roof = roofline(outcome.log, *device, *time, problem);
  std::printf(
      "%-58s %10.0f cycles | problem %5.1f%% | %5.1f%% of %-24s DMA %5.1f%% matrix %5.1f%% | %s | %zu entries%s%s\n",
      describe(c).c_str(), roof.makespan, 100 * roof.problem_share(), 100 * roof.share(),
      roof.bounds[roof.bounding].resource.c_str(), 100 * roof.dma_share(), 100 * roof.matrix_share(),
      top_stalls(*device, *time, roof).c_str(), outcome.log.entries.size(),
      c.why.empty() ? "" : " | missed: ", std::string(c.why).c_str());
  if (options.summary) std::printf("%s\n", summary(outcome.log, *device, *time, problem).c_str());
  if (options.trace.empty()) return outcome.ok();
  if (const Status status = write_trace(options.trace, outcome.log, *device, *time); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return false;
  }
  return outcome.ok();
}

int report(int argc, char** argv) {
  Options options;
  CLI::App app("Cycles of operators on the devices of devices/, by the timing model");
  app.add_option("--op", options.op, "Only this operator");
  app.add_option("--device", options.device, "Only this description");
  app.add_option("--cores", options.cores, "At most so many cores of the device");
  app.add_flag("--summary", options.summary, "Bounds, stalls and critical path");
  app.add_option("--trace", options.trace, "Write the last run as a Perfetto trace");
  CLI11_PARSE(app, argc, argv);
  bool good = true, any = false;
  for (const Case& c : cases()) {
    if ((!options.op.empty() && c.op != options.op) || (!options.device.empty() && c.device != options.device))
      continue;
    any = true;
    good = report_case(c, options) && good;
    if (measure::short_run()) break;
  }
  if (!any) {
    std::fprintf(stderr, "no case has --op '%s' --device '%s'; the cases:\n", options.op.c_str(),
                 options.device.c_str());
    for (const Case& c : cases()) std::fprintf(stderr, "  %s\n", describe(c).c_str());
    return 2;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace inlay::npu

int main(int argc, char** argv) { return inlay::npu::report(argc, argv); }
