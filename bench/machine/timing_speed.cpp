// Entries of a tape that the timing model works through in a second, on the worked programs' tapes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "npu_kernels/machine/timing.hpp"
#include "tests/machine/programs/cases.hpp"

int main() {
  using namespace inlay::npu;
  constexpr std::size_t runs = 9, least_entries = 10000;  // shorter tapes measure the allocation
  for (const Case& c : cases()) {
    const auto device = load_device(std::string(INLAY_SOURCE_DIR) + "/devices/" + std::string(c.device) + ".json");
    if (!device) return 1;
    const Outcome outcome = run(c, *device);
    if (outcome.tape.entries.size() < least_entries) continue;
    std::vector<double> seconds;
    for (std::size_t i = 0; i < runs; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const auto time = time_tape(outcome.tape, *device);
      if (!time) return 1;
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
    std::printf("%-70s %7zu entries, %4.1f M entries/s\n", describe(c).c_str(), outcome.tape.entries.size(),
                static_cast<double>(outcome.tape.entries.size()) / seconds[runs / 2] * 1e-6);
  }
  return 0;
}
