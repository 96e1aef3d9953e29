// Entries of a tape that the timing model works through in a second, on the worked programs' tapes.
#include <cstdio>
#include <vector>

#include "measure/machine_cases.hpp"
#include "measure/timing.hpp"
#include "npu_kernels/machine/time/timing.hpp"

int main() {
  using namespace inlay::npu;
  constexpr std::size_t runs = 9, least_entries = 10000;  // shorter tapes measure the allocation
  for (const Case& c : cases()) {
    const auto device = load_device(std::string(INLAY_SOURCE_DIR) + "/devices/" + std::string(c.device) + ".json");
    if (!device) return 1;
    const Outcome outcome = run(c, *device);
    if (outcome.tape.entries.size() < least_entries) continue;
    std::vector<double> times;
    bool good = true;
    for (std::size_t i = 0; i < runs; ++i)
      times.push_back(inlay::measure::seconds([&] { good = time_tape(outcome.tape, *device).has_value() && good; }));
    if (!good) return 1;
    std::printf("%-70s %7zu entries, %4.1f M entries/s\n", describe(c).c_str(), outcome.tape.entries.size(),
                static_cast<double>(outcome.tape.entries.size()) / inlay::measure::median(times) * 1e-6);
  }
  return 0;
}
