#include <inlay/ops/dequantize.hpp>

#include <Eigen/Core>

#include "tests/support/backends.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/quantized.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

struct Case {
  Tensor<2> x, scale, zero = {}, y;
  index row_group = 0, column_group = 0;

  Dequantize<Host> op() {
    return {.x = x, .scale = scale, .zero = zero, .y = y, .row_group = row_group, .column_group = column_group};
  }
};

Case make(DType code, DType type, index rows, index cols, std::array<index, 2> scales, Layout layout, Rng& rng) {
  Case c{.x = {code, {rows, cols}, layout}, .scale = {DType::f32, scales}, .y = {type, {rows, cols}, layout}};
  c.x.integers(rng, lowest(code), highest(code));
  c.scale.uniform(rng, -1, 1);
  c.y.poison();
  return c;
}

// Rounded where the contract says, so there is nothing to tolerate.
void compare(const Case& start) {
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_equal(got.y, expected.y);
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

TEST(dequantize, every_granularity) {
  Rng rng(1);
  for (const Granularity& g : granularities()) {
    Case c = make(g.code, g.type, g.rows, g.cols, g.scales, g.layout, rng);
    c.row_group = g.row_group, c.column_group = g.column_group;
    if (g.with_zero) c.zero = Tensor<2>(g.code, g.scales).integers(rng, lowest(g.code), highest(g.code));
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Half a step, and what the f32 quotient and product round off: |x| / step roundings of half an ulp.
TEST(dequantize, undoes_quantize_to_half_a_step) {
  Rng rng(3);
  for (DType code : codes) {
    Tensor<2> x(DType::f32, {3, 258}), back(DType::f32, {3, 258}), q(code, {3, 258});
    Tensor<1> scale(DType::f32, {3}), zero(code, {3});
    x.uniform(rng, -3, 5);
    on_every_backend([&](const std::string&, auto run) {
      ASSERT_TRUE(ok(run(Quantize<Host>{.x = x, .y = q, .row_scale = scale, .row_zero = zero})));
      const View<2> scales(scale.data<float>(), {3, 1});
      for (index t = 0; t < 3; ++t) {
        Tensor<2> z(code, {1, 1});
        z.fill(zero.get(t));
        ASSERT_TRUE(ok(run(Dequantize<Host>{.x = q.view().slice(0, t, 1),
                                            .scale = scales.slice(0, t, 1),
                                            .zero = z,
                                            .y = back.view().slice(0, t, 1)})));
      }
      for (index i = 0; i < x.size(); ++i) {
        // The zero point itself is rounded: the ends of the range may lose half a step more.
        const double step = scale.get(i / 258);
        ASSERT_LE(std::abs(back.get(i) - x.get(i)), step * 1.0001) << i;
      }
    });
  }
}

TEST(dequantize, reference_agrees_with_eigen) {
  Rng rng(4);
  Case c = make(DType::i8, DType::f32, 4, 65, {1, 65}, {}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Array<std::int8_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::ArrayXXf q = Eigen::Map<Matrix>(c.x.data<std::int8_t>(), 4, 65).cast<float>();
  const Eigen::ArrayXf scale = Eigen::Map<Eigen::ArrayXf>(c.scale.data<float>(), 65);
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 65; ++i) EXPECT_EQ(c.y.get(t * 65 + i), q(t, i) * scale(i));
}

TEST(dequantize, refuses_what_the_contract_does_not_cover) {
  Rng rng(5);
  Case c = make(DType::i8, DType::f32, 4, 8, {4, 1}, {}, rng);
  Tensor<2> other(DType::f32, {3, 1}), zero(DType::u8, {4, 1}), zeros(DType::i8, {1, 1});
  Dequantize<Host> op = c.op();
  op.scale = other;
  expect_refused(op, {"scale", "[3, 1]", "4"});
  op = c.op();
  op.zero = zero;
  expect_refused(op, {"zero", "u8", "i8"});
  op = c.op();
  op.zero = zeros;
  expect_refused(op, {"zero", "[1, 1]", "[4, 1]"});
  op = c.op();
  op.x.dtype = DType::i32;
  expect_refused(op, {"x", "i32"});
  op = c.op();
  op.y.dtype = DType::i8;
  expect_refused(op, {"y", "i8", "f32"});
  op = c.op();
  op.row_group = -2;
  expect_refused(op, {"row_group", "-2"});
}

}  // namespace
}  // namespace inlay::test
