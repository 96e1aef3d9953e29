#include <inlay/ops/swiglu.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/onnx.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<2> gate, up, y;
  float alpha = 1, limit = std::numeric_limits<float>::infinity(), up_offset = 0;

  Swiglu<Host> op() { return {.gate = gate, .up = up, .y = y, .alpha = alpha, .limit = limit, .up_offset = up_offset}; }
};

Case make(DType type, index rows, index dim, Layout layout) {
  Case c{.gate = {type, {rows, dim}, layout}, .up = {type, {rows, dim}, layout}, .y = {type, {rows, dim}, layout}};
  c.y.poison();
  return c;
}

// exp (3 eps of a value at most 1, in one of two summands), a sum, a division, two products and the
// offset: at most 12 eps. The product alpha * g adds its rounding to the exponent: |alpha g| eps.
constexpr double ulps = 12;

void expect_swiglu(const Tensor<2>& got, const Tensor<2>& expected, const Tensor<2>& gate, double alpha) {
  expect_close(got, expected, 1, [&](index k) {
    const double g = std::min(std::abs(gate.get(k)), 100.0);
    return (ulps + std::abs(alpha * g)) * std::abs(expected.get(k)) + g * 0x1p-120;
  });
}

TEST(swiglu, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (index dim : sizes)
      for (index rows : row_counts)
        for (const Layout& layout : layouts) {
          Case start = make(type, rows, dim, layout);
          start.gate.uniform(rng, -20, 20);
          start.up.uniform(rng, -10, 10);
          if (dim % 2) start.alpha = 1.702f, start.limit = 7, start.up_offset = 1;
          against_the_reference(start, [&](const Case& expected, const Case& got) {
            expect_swiglu(got.y, expected.y, start.gate, start.alpha);
            EXPECT_TRUE(got.y.gaps_untouched());
          });
        }
}

// The two halves of a fused projection, and y over either of them.
TEST(swiglu, halves_of_one_row_in_place) {
  Rng rng(2);
  const index rows = 3, dim = 67;
  Tensor<2> fused(DType::f32, {rows, 2 * dim}), expected(DType::f32, {rows, dim});
  fused.uniform(rng, -5, 5);
  Reference reference;
  const auto op = [&](Tensor<2>& rows_of, View<2> y) {
    return Swiglu<Host>{.gate = rows_of.view().slice(1, 0, dim), .up = rows_of.view().slice(1, dim, dim), .y = y};
  };
  ASSERT_TRUE(ok(run(reference, op(fused, expected))));
  on_every_backend([&](const std::string&, auto run) {
    for (index half : {index{0}, dim}) {
      Tensor<2> got = fused;
      ASSERT_TRUE(ok(run(op(got, got.view().slice(1, half, dim)))));
      for (index t = 0; t < rows; ++t)
        for (index i = 0; i < dim; ++i) {
          const double e = expected.get(t * dim + i);
          ASSERT_LE(std::abs(got.get(t * 2 * dim + half + i) - e), ulps * 2 * 0x1p-24 * std::abs(e));
          ASSERT_EQ(got.get(t * 2 * dim + dim - half + i), fused.get(t * 2 * dim + dim - half + i));
        }
    }
  });
}

TEST(swiglu, extremes) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const double gates[] = {0, -0.0, 88, 89, 104, 1e5, inf, -80, -88, -104, -1e5, nan, 1};
  on_every_backend([&](const std::string&, auto run) {
    Tensor<2> gate(DType::f32, {1, 13}), up(DType::f32, {1, 13}), y(DType::f32, {1, 13});
    for (index k = 0; k < 13; ++k) gate.set(k, gates[k]);
    up.fill(1);
    up.set(12, nan);
    for (float limit : {std::numeric_limits<float>::infinity(), 7.0f}) {
      ASSERT_TRUE(ok(run(Swiglu<Host>{.gate = gate, .up = up, .y = y, .limit = limit})));
      for (index k = 0; k < 11; ++k) {
        const double g = std::min<double>(gates[k], limit);
        if (g == inf) {
          ASSERT_EQ(y.get(k), inf);
        } else {
          ASSERT_NEAR(y.get(k), g / (1 + std::exp(-g)), std::abs(g) * 0x1p-20) << g;
        }
      }
      EXPECT_TRUE(std::isnan(y.get(11)));
      EXPECT_TRUE(std::isnan(y.get(12)));
    }
  });
}

TEST(swiglu, agrees_with_onnx) {
  if (!have_data("onnx_node/LICENSE")) return;
  struct Node {
    const char* name;
    float alpha;
  };
  for (const Node& node : {Node{"test_swiglu", 1}, Node{"test_swiglu_alpha", 0.5f}, Node{"test_swiglu_float16", 1}}) {
    const OnnxTensor gate = onnx_tensor(node.name, "input_0"), up = onnx_tensor(node.name, "input_1");
    const OnnxTensor expected = onnx_tensor(node.name, "output_0");
    const std::array<index, 2> shape{1, gate.size()};
    on_every_backend([&](const std::string&, auto run) {
      Tensor<2> y(gate.dtype, shape);
      ASSERT_TRUE(
          ok(run(Swiglu<Host>{.gate = gate.view<2>(shape), .up = up.view<2>(shape), .y = y, .alpha = node.alpha})));
      // ONNX rounds every step to the type: three roundings, where ours has one.
      for (index k = 0; k < y.size(); ++k)
        ASSERT_LE(std::abs(y.get(k) - expected.get(k)),
                  (gate.dtype == DType::f32 ? 16 : 6) * epsilon(gate.dtype) * std::abs(expected.get(k)));
    });
  }
}

TEST(swiglu, subnormals) {
  Rng rng(6);
  for (DType type : float_types)
    for (bool small_gate : {false, true})
      for (index dim : subnormal_sizes) {
        SCOPED_TRACE(small_gate ? "small gate" : "small up");
        Case c = make(type, 2, dim, {});
        c.gate.uniform(rng), c.up.uniform(rng);
        subnormals(small_gate ? c.gate : c.up, rng, dim % 2);
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          // An operand and two products, by factors of at most 1.
          expect_close(
              got.y, expected.y, ulps + 1, [&](index k) { return std::abs(expected.y.get(k)); }, 3 * lost);
        });
      }
}

TEST(swiglu, refuses_what_the_contract_does_not_cover) {
  Tensor<2> a(DType::f32, {3, 8}), b(DType::f32, {3, 7}), y(DType::f32, {3, 8}), half(DType::f16, {3, 8});
  expect_refused(Swiglu<Host>{.gate = a, .up = b, .y = y}, {"up", "[3, 7]", "[3, 8]"});
  expect_refused(Swiglu<Host>{.gate = a, .up = half, .y = y}, {"up", "f16", "f32", "gate"});
  expect_refused(Swiglu<Host>{.gate = a, .up = a, .y = y, .limit = 0}, {"limit", "0", "above 0"});
  expect_refused(Swiglu<Host>{.gate = a, .up = a, .y = y, .alpha = std::numeric_limits<float>::infinity()},
                 {"alpha", "inf"});
  expect_refused(Swiglu<Host>{.gate = a, .up = a, .y = half}, {"y", "f16", "f32"});
}

}  // namespace
}  // namespace inlay::test
