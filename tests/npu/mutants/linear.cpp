// The mutation suite (mutate.hpp) over the linear layers' own programs.
#include "tests/npu/mutants/mutate.hpp"
#include "tests/npu/programs/small_linear.hpp"

namespace inlay::npu::test {
namespace {

TEST(MutantsOfLinear, EveryNecessarySyncIsReported) {
  Count total;
  for (const Device& device : devices_for_linear())
    for (const Problem& program : small_linear()) total += mutate(program, device);
  std::cout << "linear layers: " << total << "\n";
}

}  // namespace
}  // namespace inlay::npu::test
