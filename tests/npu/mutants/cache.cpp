// The mutation suite (mutate.hpp) over the cache's operators and greedy sampling.
#include "tests/npu/mutants/mutate.hpp"
#include "tests/npu/programs/small_caches.hpp"

namespace inlay::npu::test {
namespace {

TEST(MutantsOfCaches, EveryNecessarySyncIsReported) {
  Count total;
  for (const Device& device : small_devices())
    for (const Problem& program : small_caches()) total += mutate(program, device);
  std::cout << "cache and sampling: " << total << "\n";
}

}  // namespace
}  // namespace inlay::npu::test
