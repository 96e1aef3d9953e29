#include <inlay/ops/softmax.hpp>

#include <Eigen/Core>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/onnx.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Scores s are rounded twice, |s - m| once more: the exponent is off by 3 eps max|s|. The sum has two
// chains of at most 8192 positive terms of a piece, each addition rounded; exp, the merge, the
// quotient and the product add 10 eps.
double ulps(index n, double largest_score) {
  return 10 + std::min<double>(static_cast<double>(n), 16384) / 2 + 6 * largest_score;
}

struct Case {
  Tensor<3> x, mask = {}, y;
  Tensor<1> sink = {};
  float scale = 1;
  bool log = false;
  double largest = 8;

  Softmax<Host> op() { return {.x = x, .mask = mask, .sink = sink, .y = y, .scale = scale, .log = log}; }
  void add_sink(Rng& rng) { sink = Tensor<1>(DType::f32, {x.extents()[0]}).uniform(rng, -8, 8); }
};

void compare(const Case& start) {
  Case expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  std::vector<double> first;
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    const double bound = ulps(got.x.extents()[2], got.largest);
    if (got.log)  // the logarithm turns a relative error into an absolute one
      expect_close(got.y, expected.y, bound, [&](index k) { return 1 + std::abs(expected.y.get(k)); });
    else
      expect_close(got.y, expected.y, bound, [&](index k) { return std::abs(expected.y.get(k)) + 0x1p-100; });
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

Case make(DType type, DType out, const std::array<index, 3>& shape, Layout layout, Rng& rng) {
  Case c{.x = {type, shape, layout}, .y = {out, shape, layout}};
  c.x.uniform(rng, -8, 8);
  c.y.poison();
  return c;
}

TEST(softmax, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType out : {DType::f32, type})
      for (index n : sizes)
        for (const Layout& layout : layouts) {
          const index heads = 1 + n % 3, rows = n % 4;
          Case c = make(type, out, {heads, rows, n}, layout, rng);
          c.scale = n % 2 ? 0.125f : 1.0f;
          if (n % 3 == 0) c.add_sink(rng);
          c.log = n % 5 == 0;
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

// Every kind of mask, broadcast and not; what lies under it is poison.
TEST(softmax, masks) {
  Rng rng(2);
  for (DType type : float_types)
    for (DType kind : {DType::boolean, DType::f32, type})
      for (index n : {1, 15, 16, 17, 65, 129})
        for (int broadcast = 0; broadcast < 4; ++broadcast) {
          Case c = make(type, type, {3, 4, n}, layouts[1], rng);
          c.mask = {kind, {broadcast & 1 ? 1 : 3, broadcast & 2 ? 1 : 4, n}};
          if (n % 2) c.add_sink(rng);
          c.largest = 16;
          for (index k = 0; k < c.mask.size(); ++k) {
            const bool hidden = rng() % 3 == 0;
            c.mask.set(k, kind == DType::boolean ? hidden : hidden ? -infinity : static_cast<double>(rng() % 9) - 4);
          }
          for (index h = 0; h < 3; ++h)
            for (index r = 0; r < 4; ++r)
              for (index j = 0; j < n; ++j) {
                const double m = at(c.mask.view(), broadcast & 1 ? 0 : h, broadcast & 2 ? 0 : r, j);
                if (kind == DType::boolean ? m != 0 : m == -infinity)
                  c.x.set((h * 4 + r) * n + j, j % 2 ? std::nan("") : infinity);
              }
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

TEST(softmax, a_row_masked_whole_gives_zeros) {
  for (bool log : {false, true})
    for (bool sinks : {false, true})
      on_every_backend([&](const std::string&, auto run) {
        Rng rng(3);
        Case c = make(DType::f32, DType::f32, {1, 2, 33}, {}, rng);
        c.mask = {DType::boolean, {1, 2, 33}};
        if (sinks) c.add_sink(rng);
        c.log = log;
        c.mask.fill(0);
        for (index j = 0; j < 33; ++j) c.mask.set(j, 1);
        ASSERT_TRUE(ok(run(c.op())));
        for (index j = 0; j < 33; ++j) ASSERT_EQ(c.y.get(j), log ? -infinity : 0);
        for (index j = 33; j < 66; ++j) ASSERT_TRUE(std::isfinite(c.y.get(j)));
      });
}

// The vocabularies of large models: several pieces a row, in place, the same bits for any threads.
TEST(softmax, huge_rows) {
  Rng rng(4);
  for (index n : {16384, 16385, 200001, 643251}) {
    Case start = make(n == 200001 ? DType::bf16 : DType::f32, DType::f32, {1, 1, n}, {}, rng);
    start.largest = 8;
    for (index j = 0; j < 16384; ++j) start.x.set(j, -infinity);  // one piece without a finite score
    start.x.set(n - 1, 8);
    if (n < 643251) {
      ASSERT_NO_FATAL_FAILURE(compare(start));
    }
    for (Isa isa : available_isas()) {
      const Cpu alone(isa, serial()), two_threads(isa, openmp(2)), three_threads(isa, openmp(3));
      Tensor<3> one = start.y, three = start.y;
      Softmax<Host> op = start.op();
      op.y = one;
      ASSERT_TRUE(ok(run_with_scratch(alone, op)));
      op.y = three;
      ASSERT_TRUE(ok(run_with_scratch(three_threads, op)));
      expect_equal(one, three);
      double sum = 0;
      for (index j = 0; j < n; ++j) sum += one.get(j);
      EXPECT_NEAR(sum, 1, 1e-4);
      if (start.x.dtype() == DType::f32) {
        Tensor<3> in_place = start.x;
        op.x = in_place;
        op.y = in_place;
        ASSERT_TRUE(ok(run_with_scratch(two_threads, op)));
        expect_equal(in_place, one);
      }
    }
  }
}

TEST(softmax, huge_logits_and_non_finite_input) {
  on_every_backend([&](const std::string&, auto run) {
    Tensor<3> x(DType::f32, {1, 4, 3}), y = x;
    const double rows[12] = {1e5, -1e5, 1e5, 0, std::nan(""), 1, infinity, 0, 1, -infinity, 2, 2};
    for (index k = 0; k < 12; ++k) x.set(k, rows[k]);
    ASSERT_TRUE(ok(run(Softmax<Host>{.x = x, .y = y})));
    EXPECT_EQ(y.get(0), 0.5);
    EXPECT_EQ(y.get(1), 0);
    for (index k = 3; k < 6; ++k) EXPECT_TRUE(std::isnan(y.get(k)));
    EXPECT_TRUE(std::isnan(y.get(6)));
    EXPECT_EQ(y.get(9), 0);
    EXPECT_EQ(y.get(10), 0.5);
  });
}

TEST(softmax, reference_agrees_with_eigen_and_onnx) {
  Rng rng(5);
  Case c = make(DType::f32, DType::f32, {1, 3, 77}, {}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index r = 0; r < 3; ++r) {
    const Eigen::ArrayXd s = Eigen::Map<Eigen::ArrayXf>(c.x.data<float>() + r * 77, 77).cast<double>();
    const Eigen::ArrayXd e = (s - s.maxCoeff()).exp();
    for (index j = 0; j < 77; ++j) EXPECT_NEAR(c.y.get(r * 77 + j), e(j) / e.sum(), 1e-7);
  }
  if (!have_data("onnx_node/LICENSE")) return;
  for (const char* name : {"test_softmax_default_axis", "test_softmax_negative_axis", "test_softmax_example"}) {
    const OnnxTensor x = onnx_tensor(name, "input_0"), expected = onnx_tensor(name, "output_0");
    const std::array<index, 3> shape{1, x.size() / x.dims.back(), x.dims.back()};
    on_every_backend([&](const std::string&, auto run) {
      Tensor<3> y(DType::f32, shape);
      ASSERT_TRUE(ok(run(Softmax<Host>{.x = x.view<3>(shape), .y = y})));
      for (index k = 0; k < y.size(); ++k) ASSERT_NEAR(y.get(k), expected.get(k), 1e-6);
    });
  }
}

// Scores below the smallest normal number, and weights: exp(-90) of a maximum of 0.
TEST(softmax, subnormals) {
  Rng rng(10);
  for (DType type : float_types)
    for (bool log : {false, true})
      for (index n : subnormal_sizes) {
        Case c = make(type, DType::f32, {1, 3, n}, {}, rng);
        subnormals(c.x, rng);
        for (index j = 1; j < n; ++j) c.x.set(n + j, -85 - 20.0 * static_cast<double>(j) / static_cast<double>(n));
        c.log = log, c.largest = 106;
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          const auto scale = [&](index k) { return (log ? 1 : 0) + std::abs(expected.y.get(k)); };
          // A score; or an exponential, a factor and their product.
          expect_close(got.y, expected.y, ulps(n, c.largest), scale, 3 * lost);
        });
      }
}

TEST(softmax, refuses_what_the_contract_does_not_cover) {
  Tensor<3> x(DType::f32, {2, 3, 8}), mask(DType::boolean, {2, 2, 8}), y(DType::f32, {2, 3, 8}),
      half(DType::f16, {2, 3, 8});
  Tensor<1> sink(DType::f32, {3});
  expect_refused(Softmax<Host>{.x = x, .mask = mask, .y = y}, {"mask", "[2, 2, 8]", "[2, 3, 8]"});
  expect_refused(Softmax<Host>{.x = x, .sink = sink, .y = y}, {"sink", "3", "2"});
  expect_refused(Softmax<Host>{.x = x, .y = half}, {"y", "f16", "f32"});
  expect_refused(Softmax<Host>{.x = x, .y = y, .scale = std::numeric_limits<float>::infinity()}, {"scale", "inf"});
}

}  // namespace
}  // namespace inlay::test
