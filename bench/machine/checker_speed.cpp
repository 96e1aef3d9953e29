// Entries of a tape that the checker works through in a second, on the worked programs' tapes, and what it
// finds there: nothing.
#include <cstdio>
#include <vector>

#include "measure/machine_cases.hpp"
#include "measure/timing.hpp"
#include "npu_kernels/machine/check/checker.hpp"

int main() {
  using namespace inlay::npu;
  constexpr std::size_t runs = 5, least_entries = 10000;  // shorter tapes measure the allocation
  for (const Case& c : cases()) {
    const auto device = load_device(std::string(INLAY_SOURCE_DIR) + "/devices/" + std::string(c.device) + ".json");
    if (!device) return 1;
    const Outcome outcome = run(c, *device);
    if (outcome.tape.entries.size() < least_entries) continue;
    std::vector<double> times;
    std::size_t reports = 0, removable = 0;
    for (std::size_t i = 0; i < runs; ++i)
      times.push_back(inlay::measure::seconds([&] { reports = check(outcome.tape, *device).size(); }));
    const double search = inlay::measure::seconds([&] { removable = redundant_syncs(outcome.tape, *device).size(); });
    std::printf(
        "%-70s %7zu entries, %5.2f M entries/s, %zu reports; %zu groups of sync lines removable, found in %.2f s\n",
        describe(c).c_str(), outcome.tape.entries.size(),
        static_cast<double>(outcome.tape.entries.size()) / inlay::measure::median(times) * 1e-6, reports, removable,
        search);
  }
  return 0;
}
