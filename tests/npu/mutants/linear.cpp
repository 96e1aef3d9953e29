// The mutation suite (mutate.hpp) over the linear layers' own programs.
#include "tests/npu/mutants/mutate.hpp"
#include "tests/npu/programs/small_linear.hpp"

namespace inlay::npu::test {
namespace {

TEST(MutantsOfLinear, EveryNecessarySyncIsReported) {
  Count total;
  const std::vector<Device> devices = devices_for_linear();
  const std::vector<Problem> programs = small_linear();
  for (std::size_t d = 0; d < devices.size(); ++d)
    for (std::size_t p = 0; p < programs.size(); ++p)
      if (has_its_turn(p, d)) total += mutate(programs[p], devices[d]);
  std::cout << "linear layers: " << total << "\n";
}

}  // namespace
}  // namespace inlay::npu::test
