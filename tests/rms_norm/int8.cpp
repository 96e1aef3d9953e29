// One scale a row, and codes of its elements.
#include "tests/support/rms_norm_case.hpp"

namespace inlay::test {
namespace {

TEST(rms_norm, int8_output) {
  Rng rng(21);
  for (DType type : float_types)
    for (DType weight : {DType::f32, type})
      for (index dim : sizes)
        for (const Layout& layout : layouts) {
          RmsNormCase c = rms_norm_case(type, weight, DType::i8, 3, 1, dim, layout, rng);
          for (index i = 0; i < dim; ++i) c.x.set(dim + i, 5 * c.x.get(dim + i));  // row 1 has another scale
          if (dim % 2) c.add_residual(rng);
          c.weight_offset = dim % 4 == 1 ? -2.0f : dim % 4 == 3 ? 1.0f : 0.0f;
          c.eps = dim % 5 == 1 ? 0.5f : 1e-5f;
          ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
        }
}

// mean(x^2) + eps is 1 and the largest product 127: quotients are the weights over 16, exactly. To nearest even.
TEST(rms_norm, int8_codes_at_ties) {
  const std::vector<double> quotients = {127,    0.5,    1.5,  2.5,  -0.5,  -1.5, -2.5,  125.5, 126.5,
                                         -126.5, -125.5, 0.25, 0.75, -0.75, -127, 63.49, 0};
  const std::vector<double> codes = {127, 0, 2, 2, 0, -2, -2, 126, 126, -126, -126, 0, 1, -1, -127, 63, 0};
  const auto dim = static_cast<index>(codes.size());
  const auto expect = [&](auto&& run) {
    Tensor<2> x(DType::f32, {2, dim}), y(DType::i8, {2, dim});
    Tensor<1> weight(DType::f32, {dim}), y_scale(DType::f32, {2});
    x.fill(0x1p-4), y.poison(), y_scale.poison();
    for (index i = 0; i < dim; ++i) x.set(dim + i, -0x1p-4), weight.set(i, 16 * quotients[i]);
    ASSERT_TRUE(ok(run(
        RmsNorm<Host>{.x = x, .weight = weight, .y = y, .y_scale = y_scale, .eps = static_cast<float>(1 - 0x1p-8)})));
    for (index t = 0; t < 2; ++t) ASSERT_EQ(y_scale.get(t), 1);
    for (index i = 0; i < dim; ++i) {
      ASSERT_EQ(y.get(i), codes[i]) << quotients[i];
      ASSERT_EQ(y.get(dim + i), -codes[i]) << quotients[i];
    }
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

// The largest element, at each end of the row and beyond a register, is what the scale follows.
TEST(rms_norm, int8_scale_follows_the_largest) {
  Rng rng(22);
  for (index dim : {1, 16, 17, 64, 81})
    for (index place : {index{0}, dim / 2, dim - 1})
      for (double largest : {50.0, -50.0}) {
        RmsNormCase c = rms_norm_case(DType::f32, DType::f32, DType::i8, 1, 1, dim, {}, rng);
        c.x.set(place, largest);
        ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
      }
}

// A largest element whose step is subnormal: 1 / step is beyond f32, and the codes still follow the row.
TEST(rms_norm, int8_rows_of_small_numbers) {
  Rng rng(23);
  for (double largest : {0x1p-118, 127 * 0x1p-126, 126 * 0x1p-126, 0x1p-120, 0x1p-126, 0x1p-140, 0x1p-149}) {
    SCOPED_TRACE(largest);
    RmsNormCase c = rms_norm_case(DType::f32, DType::f32, DType::i8, 3, 1, 65, {}, rng);
    c.x.uniform(rng, -largest, largest);
    c.x.set(7, largest);
    c.weight.fill(1);
    c.eps = 1;  // no row is divided by less, and products are exact
    ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
  }
}

}  // namespace
}  // namespace inlay::test
