// Entries of a log that the checker works through in a second, on operators' logs, and what it
// finds there: nothing, or the exit status is 1. `disturbed`: others had the processor (measure/processors.hpp).
// INLAY_BENCH_SHORT=1: one log, once.
#include <cstdio>
#include <vector>

#include "measure/npu_cases.hpp"
#include "measure/processors.hpp"
#include "measure/timing.hpp"
#include "tile_machine/check/checker.hpp"

int main() {
  using namespace inlay::npu;
  constexpr std::size_t min_entries = 10000;  // shorter logs measure the allocation
  const std::size_t runs = inlay::measure::short_run() ? 1 : 5;
  bool clean = true;
  for (const Case& c : cases()) {
    const auto device =
        load_device(std::string(INLAY_SOURCE_DIR) + "/tile_machine/devices/" + std::string(c.device) + ".json");
    if (!device) return 1;
    const Outcome outcome = run(c, *device).outcome;
    if (outcome.log.entries.size() < min_entries) continue;
    std::vector<double> times;
    std::size_t reports = 0, removable = 0;
    inlay::measure::Processors processors;
    processors.begin();
    for (std::size_t i = 0; i < runs; ++i)
      times.push_back(inlay::measure::seconds([&] { reports = check(outcome.log, *device).size(); }));
    const double search = inlay::measure::seconds([&] { removable = redundant_syncs(outcome.log, *device).size(); });
    processors.end();
    clean = clean && reports == 0;
    std::printf(
        "%-70s %7zu entries, %5.2f M entries/s, %zu reports; %zu groups of sync lines removable, found in %.2f s%s\n",
        describe(c).c_str(), outcome.log.entries.size(),
        static_cast<double>(outcome.log.entries.size()) / inlay::measure::median(times) * 1e-6, reports, removable,
        search, processors.disturbed(1) ? " disturbed" : "");
    if (inlay::measure::short_run()) break;
  }
  return clean ? 0 : 1;
}
