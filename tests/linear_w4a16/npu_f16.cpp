// NpuActivations::f16: x and w are rounded to f16 once, on every description.
#include "tests/linear_w4a16/case.hpp"

namespace inlay::test {
namespace {

// Each rounding is a step of at most eps(f16) of x, or of w: a walk over the products. What f16 loses of small
// weights is half its least number.
TEST(linear_w4a16, f16_rounds_x_and_w_once) {
  Rng rng(31);
  for (const std::string_view device : npu_devices())
    for (const NpuMode mode : {NpuMode::functional, NpuMode::checked}) {
      auto npu =
          Npu::make({.device = std::string(device), .mode = mode, .activations = NpuActivations::f16, .cores = 1});
      ASSERT_TRUE(npu) << npu.error().message();
      int turn = 0;
      for (index rows : {1, 3, 40})
        for (index n : {16, 33, 70})
          for (index k : {8, 100, 259, 1500})
            for (index group : {0, 8, 24, 32, 128})
              for (index bits : code_bits) {
                if (mode == NpuMode::checked && ++turn % 9 != 0) continue;
                // Of long rows a part, and no groups of 8: with wide scales their tables are more than systolic32 has
                // room for.
                if (k > 1000 && (rows == 1 || group == 8 || n == 33 || (mode == NpuMode::checked && turn % 27 != 0)))
                  continue;
                Types types{
                    .x = float_types[rng() % 3], .y = DType::f32, .scales = rng() % 3 ? DType::f16 : DType::f32};
                if (may_have_units(group) && rng() % 2) types.scales = DType::i8;
                types.offsets = types.scales;
                const Case start = make(
                    {rows, n, k, group, bits},
                    std::array{Form::symmetric, Form::zeros, Form::codebook, Form::offsets}[rng() % 4], types, {}, rng);
                SCOPED_TRACE(std::string(device) + " " + std::to_string(rows) + " x " + std::to_string(n) + " x " +
                             std::to_string(k) + ", group " + std::to_string(group) + ", " +
                             describe(Case(start).op()));
                Case got = start;
                ASSERT_TRUE(ok(run_with_scratch(*npu, got.op())));
                const Matrix x = Activations(start).x, w = Weight(start).w(), expected = x * w.transpose();
                const Matrix size = (x.array().square().matrix() * w.array().square().matrix().transpose());
                for (index i = 0; i < rows * n; ++i) {
                  const double walk = std::sqrt(size.data()[i]), lost = static_cast<double>(k) * 0x1p-25;
                  ASSERT_NEAR(got.y.get(i), expected.data()[i], 4 * epsilon(DType::f16) * walk + lost) << i;
                }
              }
    }
}

}  // namespace
}  // namespace inlay::test
