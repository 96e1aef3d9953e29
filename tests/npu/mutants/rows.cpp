// The mutation suite (mutate.hpp) over the row-wise operators' own programs.
#include "tests/npu/mutants/mutate.hpp"
#include "tests/npu/programs/small_rows.hpp"

namespace inlay::npu::test {
namespace {

TEST(MutantsOfRows, EveryNecessarySyncIsReported) {
  Count total;
  for (const Device& device : small_devices())
    for (const Problem& program : small_rows()) total += mutate(program, device);
  std::cout << "row-wise operators: " << total << "\n";
}

}  // namespace
}  // namespace inlay::npu::test
