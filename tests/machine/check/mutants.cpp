// The mutation suite (mutate.hpp) over the worked programs.
#include "tests/machine/check/mutate.hpp"

namespace inlay::npu::test {
namespace {

class Mutants : public testing::Test {
 protected:
  static Count total;
  static void TearDownTestSuite() { std::cout << "all programs and devices: " << total << "\n"; }
};
Count Mutants::total;

TEST_F(Mutants, OfTheWorkedPrograms) {
  for (const Device& device : small_devices())
    for (const Problem& program : small_problems()) total += mutate(program, device);
}

}  // namespace
}  // namespace inlay::npu::test
