// Entries of a tape that the checker works through in a second, on the worked programs' tapes, and what it
// finds there: nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "npu_kernels/machine/checker.hpp"
#include "tests/machine/programs/cases.hpp"

int main() {
  using namespace inlay::npu;
  constexpr std::size_t runs = 5, least_entries = 10000;  // shorter tapes measure the allocation
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (const Case& c : cases()) {
    const auto device = load_device(std::string(INLAY_SOURCE_DIR) + "/devices/" + std::string(c.device) + ".json");
    if (!device) return 1;
    const Outcome outcome = run(c, *device);
    if (outcome.tape.entries.size() < least_entries) continue;
    std::vector<double> seconds;
    std::size_t reports = 0;
    for (std::size_t i = 0; i < runs; ++i) {
      const auto begin = Clock::now();
      reports = check(outcome.tape, *device).size();
      seconds.push_back(seconds_since(begin));
    }
    std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
    const auto begin = Clock::now();
    const std::size_t removable = redundant_syncs(outcome.tape, *device).size();
    std::printf(
        "%-70s %7zu entries, %5.2f M entries/s, %zu reports; %zu groups of sync lines removable, found in %.2f s\n",
        describe(c).c_str(), outcome.tape.entries.size(),
        static_cast<double>(outcome.tape.entries.size()) / seconds[runs / 2] * 1e-6, reports, removable,
        seconds_since(begin));
  }
  return 0;
}
