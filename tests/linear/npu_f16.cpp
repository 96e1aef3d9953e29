// NpuActivations::f16: x and w are rounded to f16 once, on every description.
#include "tests/linear/case.hpp"

namespace inlay::test {
namespace {

// Each rounding is a step of at most eps(f16) of x, or of w: a walk over the products.
TEST(linear, f16_rounds_x_and_w_once) {
  Rng rng(31);
  for (const std::string_view device : npu_devices()) {
    auto npu = Npu::make({.device = std::string(device), .activations = NpuActivations::f16, .cores = 1});
    ASSERT_TRUE(npu) << npu.error().message();
    for (const Types& type : all_types())
      for (index tokens : {1, 40})
        for (index k : {3, 130}) {
          const Case start = make({type.x, type.weight, DType::f32}, tokens, 37, k, {}, rng);
          SCOPED_TRACE(std::string(device) + ", " + describe(type.x, type.weight, type.y));
          Case got = start;
          ASSERT_TRUE(ok(run_with_scratch(*npu, got.op())));
          const Matrix x = matrix(start.x), w = matrix(start.rows), expected = x * w.transpose();
          const Matrix size = x.array().square().matrix() * w.array().square().matrix().transpose();
          for (index i = 0; i < tokens * 37; ++i)
            ASSERT_NEAR(got.y.get(i), expected.data()[i], 4 * epsilon(DType::f16) * std::sqrt(size.data()[i])) << i;
        }
  }
}

}  // namespace
}  // namespace inlay::test
