// linear_w4a16 with int8 activations by every way of OpenCL to take dot products: sums are integers, and what follows
// them is the same code, so every way gives the same bits. Each way is programs to build: rows are those of one tile.
#include "tests/linear_w4a16/case.hpp"
#ifdef INLAY_TESTS_CL
#include "tests/support/dot_ways.hpp"

namespace inlay::test {
namespace {

TEST(linear_w4a16, every_way_of_opencl) {
  Rng rng(41);
  for (const auto [form, bits] : code_kinds)
    for (index rows : {1, 3, 6, 7, 12, 13, 70}) {
      const Shape shape{rows, 40 + rows % 3 * 4, 260 + rows, rows % 2 ? 40 : 64, bits};
      Case start = make(shape, form, {.scales = DType::f16}, {}, rng, rows % 4 ? shape.k : -1);
      start.compute = W4Compute::int8_activations;
      std::map<std::string, Tensor<2>> first;
      on_every_dot_way([&](WatchedCl& device) {
        Case got = start;
        ASSERT_TRUE(ok(run_with_scratch(device, got.op())));
        const auto [at, is_first] = first.try_emplace(device.label(), got.y);
        if (!is_first) expect_equal(got.y, at->second);
      });
    }
}

}  // namespace
}  // namespace inlay::test
#endif
