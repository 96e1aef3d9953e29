// Entries of a log that the timing model works through in a second, on operators' logs: medians.
// `disturbed`: others had the processor (measure/processors.hpp). INLAY_BENCH_SHORT=1: one log, once.
#include <cstdio>
#include <vector>

#include "measure/npu_cases.hpp"
#include "measure/processors.hpp"
#include "measure/timing.hpp"
#include "tile_machine/time/timing.hpp"

int main() {
  using namespace inlay::npu;
  constexpr std::size_t min_entries = 10000;  // shorter logs measure the allocation
  const std::size_t runs = inlay::measure::short_run() ? 1 : 9;
  for (const Case& c : cases()) {
    const auto device =
        load_device(std::string(INLAY_SOURCE_DIR) + "/tile_machine/devices/" + std::string(c.device) + ".json");
    if (!device) return 1;
    const Outcome outcome = run(c, *device).outcome;
    if (outcome.log.entries.size() < min_entries) continue;
    std::vector<double> times;
    bool good = true;
    inlay::measure::Processors processors;
    processors.begin();
    for (std::size_t i = 0; i < runs; ++i)
      times.push_back(inlay::measure::seconds([&] { good = time_events(outcome.log, *device).has_value() && good; }));
    processors.end();
    if (!good) return 1;
    std::printf("%-70s %7zu entries, %4.1f M entries/s%s\n", describe(c).c_str(), outcome.log.entries.size(),
                static_cast<double>(outcome.log.entries.size()) / inlay::measure::median(times) * 1e-6,
                processors.disturbed(1) ? " disturbed" : "");
    if (inlay::measure::short_run()) break;
  }
  return 0;
}
