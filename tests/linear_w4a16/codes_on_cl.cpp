// linear_w4a16, exact, in OpenCL's per-item shape, with codes converted and as subnormal floats, whichever is faster
// here: what a code takes out of x is a power of two, so both give the same bits.
#include "tests/linear_w4a16/case.hpp"
#ifdef INLAY_TESTS_CL
#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::test {
namespace {

void expect_same_bits_of_both(Case start) {
  for (WatchedCl* device : cl_devices_as_written()) {
    cl::Runtime& runtime = device->cl().runtime();
    if (!runtime.on_this_processor() || !runtime.per_item()) continue;  // others convert, always
    SCOPED_TRACE(device->label());
    Case converted = start, subnormal = start;
    const bool here = runtime.subnormal_codes();
    runtime.take_subnormal_codes(false);
    ASSERT_TRUE(ok(run_with_scratch(*device, converted.op())));
    runtime.take_subnormal_codes(true);
    ASSERT_TRUE(ok(run_with_scratch(*device, subnormal.op())));
    runtime.take_subnormal_codes(here);
    ASSERT_NO_FATAL_FAILURE(expect_equal(subnormal.y, converted.y));
  }
}

// One row, a tile of few, tiles that share a block of floats; rows whose magnitudes lie far apart.
TEST(linear_w4a16, subnormal_codes_on_opencl_have_the_bits_of_converted_ones) {
  Rng rng(43);
  for (const auto [form, bits] : code_kinds)
    for (index rows : {1, 3, 7, 34})
      for (bool permuted : {false, true}) {
        const Shape shape{rows, 40 + rows % 3 * 4, 260 + rows, rows % 2 ? 40 : 64, bits};
        Case c = make(shape, form, {.scales = DType::f16}, {}, rng, permuted ? shape.k : -1);
        for (index i = 0; i < c.x.size(); ++i) {
          const double of_row[] = {1, 1e30, 1e-39, 1e-30, 0};
          c.x.set(i, c.x.get(i) * of_row[i / shape.k % 5]);
        }
        ASSERT_NO_FATAL_FAILURE(expect_same_bits_of_both(c));
      }
}

TEST(linear_w4a16, without_a_probe_codes_are_converted) {
  auto made = Cl::make({.shape = ClShape::per_item, .only_fallbacks = true});
  INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
  EXPECT_FALSE(made->runtime().subnormal_codes());
}

}  // namespace
}  // namespace inlay::test
#endif
