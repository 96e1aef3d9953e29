// Random structs of every operator, most of them nearly valid: check() refuses a struct and names a field, or the struct
// runs between pages that nobody may touch, on every level with one to three threads, and gives what the reference gives.
//
//   INLAY_FUZZ_RUNS   structs of each operator (here: few, a matter of seconds)
//   INLAY_FUZZ_SEED   of the first one; struct i has this seed + i
//
// What fails prints the struct and its seed: INLAY_FUZZ_SEED=<seed> INLAY_FUZZ_RUNS=1 runs it again.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/fuzz/operators/cases_attention.hpp"
#include "tests/fuzz/operators/cases_linear.hpp"
#include "tests/fuzz/operators/cases_rows.hpp"
#include "tests/fuzz/operators/session.hpp"

namespace inlay::fuzz {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

template <class Op> class Operators : public ::testing::Test {};
using All =
    ::testing::Types<Add<Host>, Swiglu<Host>, Gelu<Host>, Skeleton<Host>, RmsNorm<Host>, Softmax<Host>, RopeTable<Host>,
                     Rope<Host>, Embedding<Host>, Quantize<Host>, Dequantize<Host>, MergeStates<Host>, Sampling<Host>,
                     Linear<Host>, LinearInt8<Host>, LinearW4a16<Host>, FlashAttention<Host>, IncreFlashAttention<Host>,
                     PagedAttention<Host>, ReshapeAndCache<Host>, CopyBlocks<Host>, SwapBlocks<Host>>;
struct Names {
  template <class Op> static std::string GetName(int) { return std::string(Op::name); }
};
TYPED_TEST_SUITE(Operators, All, Names);

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
