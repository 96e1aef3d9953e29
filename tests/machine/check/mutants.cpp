// The mutation suite: every line of sync of the worked programs is left out, every ring halved, every write
// shifted, one at a time. What was left out is necessary if an oracle that knows nothing of the checker says
// so: the closure of the mutant's tape is not clean, or its results are others, or depend on the order of
// execution. Every mutant without something necessary must be reported, and no other.
//
// One kind is beyond a checker of sync: a write that is shifted within bytes that an earlier write has filled
// makes another program, wrong but as deterministic as the right one. These are counted by themselves.
#include <iostream>

#include "tests/machine/check/mutation_suite.hpp"

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
