#include <inlay/ops/gelu.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/onnx.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

constexpr GeluForm forms[] = {GeluForm::erf, GeluForm::tanh, GeluForm::quick};

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<2> x, up = {}, y;
  GeluForm form = GeluForm::erf;

  Gelu<Host> op() { return {.x = x, .up = up, .y = y, .form = form}; }
  void add_up(Rng& rng) { up = Tensor<2>(x).uniform(rng); }
};

Case make(DType type, GeluForm form, index rows, index dim, Layout layout, Rng& rng) {
  Case c{.x = {type, {rows, dim}, layout}, .y = {type, {rows, dim}, layout}, .form = form};
  c.x.uniform(rng, -9, 9);
  c.y.poison();
  return c;
}

// The factor is a quotient of exponentials: 16 eps for polynomial, exp, sum, division and products,
// and the exponent's own rounding, |exponent| eps a step: x^2/2 (erf), 1.6 x + 0.07 x^3 in four
// roundings (tanh), 1.702 x in one. Where exp is subnormal its error is absolute: |x| 2^-149 |up|.
double bound(GeluForm form, double x) {
  const double a = std::abs(x);
  const double exponent = form == GeluForm::erf    ? x * x
                          : form == GeluForm::tanh ? 4 * (1.6 * a + 0.0714 * a * a * a)
                                                   : 2 * 1.702 * a;
  return 16 + std::min(exponent, 500.0);
}

void expect_gelu(const Tensor<2>& got, const Tensor<2>& expected, const Tensor<2>& x, GeluForm form) {
  expect_close(got, expected, 1, [&](index k) {
    return bound(form, x.get(k)) * std::abs(expected.get(k)) + std::abs(x.get(k)) * 0x1p-118;
  });
}

void compare(const Case& start) {
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_gelu(got.y, expected.y, start.x, start.form);
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

TEST(gelu, sweep) {
  Rng rng(1);
  for (GeluForm form : forms)
    for (DType type : float_types)
      for (index dim : sizes)
        for (const Layout& layout : layouts) {
          Case c = make(type, form, dim % 4, dim, layout, rng);
          if (dim % 2) c.add_up(rng);
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

// Every 4096th float between 2^-20 and 64 on both sides: the polynomials hold over the whole line.
TEST(gelu, the_whole_line) {
  std::vector<float> line;
  for (std::uint32_t bits = 0x35800000; bits < 0x42800000; bits += 4096 * 5)
    for (std::uint32_t sign : {0u, 0x80000000u}) line.push_back(std::bit_cast<float>(bits | sign));
  Tensor<2> x(DType::f32, {1, static_cast<index>(line.size())});
  for (index k = 0; k < x.size(); ++k) x.set(k, line[k]);
  for (GeluForm form : forms) {
    Tensor<2> expected = x;
    Reference reference;
    ASSERT_TRUE(ok(run(reference, Gelu<Host>{.x = x, .y = expected, .form = form})));
    on_every_backend([&](const std::string&, auto run) {
      Tensor<2> got = x;
      ASSERT_TRUE(ok(run(Gelu<Host>{.x = got, .y = got, .form = form})));
      expect_gelu(got, expected, x, form);
    });
  }
}

TEST(gelu, extremes) {
  const double inf = std::numeric_limits<double>::infinity();
  on_every_backend([&](const std::string&, auto run) {
    for (GeluForm form : forms) {
      Tensor<2> x(DType::f32, {1, 6}), y(DType::f32, {1, 6});
      const double values[] = {0, 1e5, -1e5, inf, std::nan(""), 1e30};
      for (index k = 0; k < 6; ++k) x.set(k, values[k]);
      ASSERT_TRUE(ok(run(Gelu<Host>{.x = x, .y = y, .form = form})));
      EXPECT_EQ(y.get(0), 0);
      EXPECT_EQ(y.get(1), 1e5);
      EXPECT_EQ(y.get(2), 0);
      EXPECT_EQ(y.get(3), inf);
      EXPECT_TRUE(std::isnan(y.get(4)));
      EXPECT_EQ(y.get(5), static_cast<float>(1e30));
    }
  });
}

TEST(gelu, agrees_with_onnx) {
  if (!have_data("onnx_node/LICENSE")) return;
  struct Node {
    const char* name;
    GeluForm form;
  };
  for (const Node& node : {Node{"test_gelu_default_1", GeluForm::erf}, Node{"test_gelu_default_2", GeluForm::erf},
                           Node{"test_gelu_tanh_1", GeluForm::tanh}, Node{"test_gelu_tanh_2", GeluForm::tanh}}) {
    const OnnxTensor x = onnx_tensor(node.name, "input_0"), expected = onnx_tensor(node.name, "output_0");
    const std::array<index, 2> shape{1, x.size()};
    on_every_backend([&](const std::string&, auto run) {
      Tensor<2> y(DType::f32, shape);
      ASSERT_TRUE(ok(run(Gelu<Host>{.x = x.view<2>(shape), .y = y, .form = node.form})));
      // 1 + erf in f32 loses what it cancels: 2 eps |x| on their side.
      for (index k = 0; k < y.size(); ++k)
        ASSERT_LE(std::abs(y.get(k) - expected.get(k)), 16 * 0x1p-24 * std::abs(x.get(k))) << k;
    });
  }
}

TEST(gelu, in_place_over_up) {
  Rng rng(3);
  Case start = make(DType::f16, GeluForm::erf, 3, 33, {}, rng);
  start.add_up(rng);
  Case apart = start;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, apart.op())));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    Gelu<Host> op = got.op();
    op.y = got.up;
    ASSERT_TRUE(ok(run(op)));
    expect_gelu(got.up, apart.y, start.x, GeluForm::erf);
  });
}

TEST(gelu, subnormals) {
  Rng rng(6);
  for (GeluForm form : forms)
    for (DType type : float_types)
      for (index dim : subnormal_sizes) {
        Case c = make(type, form, 2, dim, {}, rng);
        subnormals(c.x, rng, dim % 2), c.add_up(rng);
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          const auto scale = [&](index k) { return bound(form, c.x.get(k)) * std::abs(expected.y.get(k)); };
          // An operand and two products, by factors of at most 1.
          expect_close(got.y, expected.y, 1, scale, 3 * lost);
        });
      }
}

TEST(gelu, refuses_what_the_contract_does_not_cover) {
  Tensor<2> x(DType::f32, {3, 8}), y(DType::f32, {3, 8}), other(DType::f32, {2, 8}), half(DType::f16, {3, 8});
  expect_refused(Gelu<Host>{.x = x, .up = other, .y = y}, {"up", "[2, 8]", "[3, 8]"});
  expect_refused(Gelu<Host>{.x = x, .y = half}, {"y", "f16", "f32"});
  expect_refused(Gelu<Host>{.x = x, .y = y, .form = static_cast<GeluForm>(3)}, {"form", "3", "erf, tanh or quick"});
}

}  // namespace
}  // namespace inlay::test
