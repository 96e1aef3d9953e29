#include <Eigen/Core>

#include "tests/layer_norm/case.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
INLAY_RUNS_OF(LayerNorm);

namespace {

constexpr Parts all_parts[] = {Parts::none, Parts::weight, Parts::bias, Parts::both};

TEST(layer_norm, sweep) {
  Rng rng(1);
  std::size_t turn = 0;
  for (DType type : float_types)
    for (DType weight : {DType::f32, type})
      for (index dim : sizes)
        for (index rows : row_counts)
          for (const Layout& layout : layouts) {
            LayerNormCase c = layer_norm_case(type, weight, all_parts[turn++ % 4], rows, dim, layout, rng);
            if ((rows + dim) % 2) add_residual(c, rng);
            c.eps = rows == 2 ? 0.25f : 1e-5f;
            c.in_place = turn % 5 == 0;
            ASSERT_NO_FATAL_FAILURE(compare_layer_norm(c));
          }
}

// Four registers at a time, then one, then a part of one: every remainder of the widest. Means that are not 0, as what
// lies behind a row is.
TEST(layer_norm, every_tail) {
  Rng rng(2);
  constexpr index widest = 16;
  for (DType type : float_types)
    for (index dim = 2; dim <= 8 * widest + 1; ++dim) {
      LayerNormCase c = layer_norm_case(type, DType::f32, Parts::both, 2, dim, {}, rng);
      c.x.uniform(rng, 2, 3);
      if (dim % 2) add_residual(c, rng);
      ASSERT_NO_FATAL_FAILURE(compare_layer_norm(c));
    }
}

TEST(layer_norm, long_rows) {
  Rng rng(3);
  for (DType type : float_types)
    for (index dim : {4095, 4096, 16385, 70001}) {
      LayerNormCase c = layer_norm_case(type, type, Parts::both, 2, dim, {}, rng);
      if (dim != 4095) add_residual(c, rng);
      ASSERT_NO_FATAL_FAILURE(compare_layer_norm(c));
    }
}

TEST(layer_norm, many_rows) {
  Rng rng(4);
  LayerNormCase c = layer_norm_case(DType::f32, DType::f32, Parts::both, 100, 24, layouts[1], rng);
  for (index k = 0; k < c.x.size(); ++k) c.x.set(k, c.x.get(k) * std::exp2(static_cast<double>(k / 24 % 21) - 10));
  add_residual(c, rng);
  ASSERT_NO_FATAL_FAILURE(compare_layer_norm(c));
}

// By hand: of 1, 2, 3, 6 the mean is 3 and the variance 14 / 4; with eps 0.5 the root is 2.
TEST(layer_norm, by_hand) {
  const double x[] = {1, 2, 3, 6}, weight[] = {1, -2, 5, 4}, bias[] = {0.5, 1, 7, -1}, y[] = {-0.5, 2, 7, 5};
  const auto expect = [&](auto&& run) {
    Tensor<2> rows(DType::f32, {1, 4}), result(DType::f32, {1, 4});
    Tensor<1> w(DType::f32, {4}), b(DType::f32, {4});
    for (index i = 0; i < 4; ++i) rows.set(i, x[i]), w.set(i, weight[i]), b.set(i, bias[i]);
    ASSERT_TRUE(ok(run(LayerNorm<Host>{.x = rows, .weight = w, .bias = b, .y = result, .eps = 0.5f})));
    for (index i = 0; i < 4; ++i) EXPECT_NEAR(result.get(i), y[i], 1e-6);
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

TEST(layer_norm, reference_agrees_with_eigen) {
  Rng rng(7);
  LayerNormCase c = layer_norm_case(DType::f32, DType::f32, Parts::both, 4, 257, {}, rng);
  c.x = Tensor<2>(DType::f32, {4, 257}).uniform(rng, -1, 3);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::ArrayXXd x = Eigen::Map<Matrix>(c.x.data<float>(), 4, 257).cast<double>();
  const Eigen::ArrayXd w = Eigen::Map<Eigen::ArrayXf>(c.weight.data<float>(), 257).cast<double>();
  const Eigen::ArrayXd b = Eigen::Map<Eigen::ArrayXf>(c.bias.data<float>(), 257).cast<double>();
  for (int t = 0; t < 4; ++t) {
    const Eigen::ArrayXd centered = x.row(t).transpose() - x.row(t).mean();
    const Eigen::ArrayXd expected = centered / std::sqrt(centered.square().mean() + 1e-5f) * w + b;
    for (int i = 0; i < 257; ++i) EXPECT_NEAR(c.y.get(t * 257 + i), expected(i), 1e-6);
  }
}

TEST(layer_norm, subnormals) {
  Rng rng(8);
  for (DType type : float_types)
    for (bool mixed : {false, true})
      for (index dim : subnormal_sizes) {
        SCOPED_TRACE(mixed ? "mixed with others" : "alone");
        LayerNormCase c = layer_norm_case(type, DType::f32, Parts::weight, 2, dim, {}, rng);
        subnormals(c.x, rng, mixed);
        c.eps = 1;  // no row is divided by less
        LayerNormCase plain = c.unrounded();
        plain.weight = {};
        Reference reference;
        ASSERT_TRUE(ok(run(reference, plain.op())));
        with_and_without_flushing(c, [&](const LayerNormCase& exact, const LayerNormCase& got, double lost) {
          // An operand, the mean, two differences, a quotient times a weight of at most 1.5, and the product.
          expect_close(got.y, exact.y, 1, layer_norm_scale(c, plain), {.lost = 8 * lost});
        });
      }
}

TEST(layer_norm, refuses_what_the_contract_does_not_cover) {
  Rng rng(9);
  LayerNormCase c = layer_norm_case(DType::f32, DType::f32, Parts::both, 2, 8, {}, rng);
  const Refused refused(c.op());
  Tensor<1> seven(DType::f32, {7}), half(DType::f16, {8});
  Tensor<2> bf16_row(DType::bf16, {2, 8}), three_rows(DType::f32, {3, 8}), codes(DType::i8, {2, 8});
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  refused([&](auto& op) { op.weight = seven; }, {"weight", "7", "8"});
  refused([&](auto& op) { op.weight = half; }, {"weight", "f16", "f32"});
  refused([&](auto& op) { op.bias = seven; }, {"bias", "7", "8"});
  refused([&](auto& op) { op.bias = half; }, {"bias", "f16", "f32"});
  refused([&](auto& op) { op.eps = -1; }, {"eps", "-1"});
  refused([&](auto& op) { op.eps = nan; }, {"eps", "nan"});
  refused([&](auto& op) { op.eps = infinity; }, {"eps", "inf"});
  refused([&](auto& op) { op.x.dtype = DType::i32; }, {"x", "i32", "f32"});
  refused([&](auto& op) { op.residual = bf16_row; }, {"residual", "bf16", "f32"});
  refused([&](auto& op) { op.residual = three_rows; }, {"residual", "[3, 8]", "[2, 8]"});
  refused([&](auto& op) { op.residual = c.y; }, {"residual", "overlaps", "y"});
  refused([&](auto& op) { op.residual = c.x; }, {"residual", "overlaps", "x"});
  refused([&](auto& op) { op.y = bf16_row; }, {"y", "bf16"});
  refused([&](auto& op) { op.y = codes; }, {"y", "i8", "f32"});
  refused([&](auto& op) { op.y = three_rows; }, {"y", "[3, 8]", "[2, 8]"});
  refused([&](auto& op) { op.y.data = c.x.data<float>() + 1; }, {"y", "overlaps", "x"});
  refused([&](auto& op) { op.x.strides[1] = 2; }, {"x", "innermost stride 2", "1"});
  refused([&](auto& op) { op.y.data = nullptr; }, {"y", "null"});
  LayerNormCase of_half = layer_norm_case(DType::f16, DType::f16, Parts::both, 2, 8, {}, rng);
  Tensor<1> wide(DType::f32, {8});
  const Refused refused_half(of_half.op());
  refused_half([&](auto& op) { op.bias = wide; }, {"bias", "weight's type"});
}

}  // namespace
}  // namespace inlay::test
