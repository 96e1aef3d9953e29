// Random structs of every operator, most of them nearly valid: check() refuses a struct and names a field, or the
// struct runs between pages that nobody may touch, on every level with one to three threads, and gives what the
// reference gives.
//
//   INLAY_FUZZ_RUNS   structs of each operator (here: few, a matter of seconds)
//   INLAY_FUZZ_SEED   of the first one; struct i has this seed + i
//
// What fails prints the struct and its seed: INLAY_FUZZ_SEED=<seed> INLAY_FUZZ_RUNS=1 runs it again.
#include <gtest/gtest.h>

#include "tests/fuzz/operators/every.hpp"
#include "tests/fuzz/operators/session.hpp"

namespace inlay::fuzz {
namespace {

template <class Op> class Operators : public ::testing::Test {};
TYPED_TEST_SUITE(Operators, EveryOperator, OperatorNames);

TYPED_TEST(Operators, are_refused_or_run) {
  constexpr std::uint64_t few = 60;
  const std::uint64_t first = number("INLAY_FUZZ_SEED", 1), runs = number("INLAY_FUZZ_RUNS", few);
  Session<TypeParam> session;
  for (std::uint64_t i = 0; i < runs; ++i) {
    session.run(first + i);
    if (::testing::Test::HasFailure()) return;
  }
  session.report(std::cout);
  // Structs that never pass test nothing behind check.
  if (runs >= few) {
    EXPECT_GE(session.share_that_ran(), 0.2);
  }
}

}  // namespace
}  // namespace inlay::fuzz
