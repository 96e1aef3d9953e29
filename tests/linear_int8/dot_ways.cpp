// linear_int8 by every way of OpenCL to take dot products, and which of them probes confirm.
#include "tests/linear_int8/case.hpp"
#ifdef INLAY_TESTS_CL
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "tests/support/dot_ways.hpp"

namespace inlay::test {
namespace {

// Tiles, a token and a channel beyond them, and tokens too few for one; sums are exact. Each way is programs to build.
TEST(linear_int8, every_way_of_opencl) {
  Rng rng(31);
  for (index tokens : {6, 7, 12, 13, 70}) {
    const index n = 40 + tokens % 3 * 4, k = tokens == 12 ? 1101 : 60 + tokens;
    Case start = make(DType::u8, DType::i32, tokens, n, k, {}, rng);
    if (tokens == 12) {  // the largest sums: f32 holds no odd one beyond 2^24
      start.x.fill(255);
      start.w.fill(127);
      start.pack();
    }
    start.x_zero = zero_points(start.x.dtype(), tokens, rng);
    start.weight_zero = zero_points(DType::i8, n, rng);
    Case expected = start;
    Reference reference;
    ASSERT_TRUE(ok(run(reference, expected.op())));
    on_every_dot_way([&](WatchedCl& device) {
      Case got = start;
      ASSERT_TRUE(ok(run_with_scratch(device, got.op())));
      expect_equal(got.y, expected.y);
    });
  }
}

// A probe that fails is silent: results are right, and late.
TEST(linear_int8, probes_confirm_what_the_processor_has) {
  auto made = Cl::make({.shape = ClShape::per_item});
  INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
  const bool pocl = made->device().platform == "Portable Computing Language" && made->device().is_cpu;
  std::string wanted, got;
#ifdef __x86_64__
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool avx_vnni = __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
  if (pocl && __builtin_cpu_supports("avx512vnni")) wanted += "DOT_VNNI16 ";
  if (pocl && avx_vnni) wanted += "DOT_VNNI8 ";
  if (pocl && __builtin_cpu_supports("avx512bw")) wanted += "DOT_MADD16 ";
  if (pocl && __builtin_cpu_supports("avx2")) wanted += "DOT_MADD8 ";
#endif
  for (const cl::Dot& way : cl::dot_ways(made->runtime()))
    if (*way.name != '\0') got += way.name + std::to_string(way.value) + " ";
  EXPECT_EQ(got, wanted);
  auto fallbacks = Cl::make({.shape = ClShape::per_item, .only_fallbacks = true});
  ASSERT_TRUE(fallbacks.has_value());
  EXPECT_EQ(std::string(fallbacks->runtime().dot().name), "");
}

}  // namespace
}  // namespace inlay::test
#endif
