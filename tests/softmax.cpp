#include <Eigen/Core>

#include "tests/support/onnx.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/softmax_case.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
INLAY_RUNS_OF(Softmax);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(softmax, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType out : {DType::f32, type})
      for (index n : sizes)
        for (const Layout& layout : layouts) {
          const index heads = 1 + n % 3, rows = n % 4;
          SoftmaxCase c = softmax_case(type, out, {heads, rows, n}, layout, rng);
          c.scale = n % 2 ? 0.3f : n % 4 ? -1.5f : 1.0f;
          if (n % 3 == 0) c.add_sink(rng);
          c.log = n % 5 == 0;
          ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
        }
}

// Two registers at a time, then one, then a part of one: every remainder of the widest. The last element is the
// largest, then the smallest.
TEST(softmax, every_tail) {
  Rng rng(2);
  constexpr index widest = 16;
  for (DType out : {DType::f32, DType::bf16})
    for (index n = 1; n <= 4 * widest + 1; ++n) {
      SoftmaxCase c = softmax_case(out, out, {1, 2, n}, {}, rng);
      c.x.set(n - 1, 9), c.x.set(2 * n - 1, -9);
      c.log = n % 2;
      ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
    }
}

// In row r at place r, and so far above the others that whoever misses it is beyond f32.
TEST(softmax, the_maximum_at_every_place) {
  Rng rng(10);
  for (DType out : {DType::f32, DType::f16})
    for (index n : {31, 64, 65}) {
      SoftmaxCase c = softmax_case(out, out, {1, n, n}, {}, rng);
      for (index r = 0; r < n; ++r) c.x.set(r * n + r, 200);
      ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
    }
}

// Rows enough that each of three threads has a grain of them.
TEST(softmax, several_rows_a_thread) {
  Rng rng(3);
  for (index n : {1, 40, 1000}) {
    const index grain = cpu::elementwise_grain / (n + 1) + 1;
    SoftmaxCase c = softmax_case(DType::f32, DType::f32, {3, grain - 1, n}, {}, rng);
    c.add_sink(rng);
    add_mask(c, DType::boolean, true, false, rng);
    poison_masked(c);
    ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
  }
}

// Every kind of mask, broadcast and not; what lies under it is poison.
TEST(softmax, masks) {
  Rng rng(4);
  for (DType type : float_types)
    for (DType kind : {DType::boolean, DType::f32, type})
      for (index n : {1, 15, 16, 17, 65, 129})
        for (int broadcast = 0; broadcast < 4; ++broadcast) {
          SoftmaxCase c = softmax_case(type, broadcast == 3 ? DType::f32 : type, {3, 4, n}, layouts[1], rng);
          add_mask(c, kind, broadcast & 1, broadcast & 2, rng);
          if (n % 2) c.add_sink(rng);
          c.log = n == 65;
          c.scale = n == 17 ? 0.7f : 1.0f;
          poison_masked(c);
          ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
        }
}

TEST(softmax, a_row_masked_whole_gives_zeros) {
  for (bool log : {false, true})
    for (bool sinks : {false, true})
      for (DType out : {DType::f32, DType::f16})
        for (DType kind : {DType::boolean, DType::f32})
          on_every_backend([&](const std::string&, auto run) {
            Rng rng(5);
            SoftmaxCase c = softmax_case(out, out, {1, 2, 33}, {}, rng);
            c.mask = {kind, {1, 2, 33}};
            if (sinks) c.add_sink(rng);
            c.log = log;
            c.mask.fill(0);
            for (index j = 0; j < 33; ++j) c.mask.set(j, kind == DType::boolean ? 1 : -infinity);
            ASSERT_TRUE(ok(run(c.op())));
            for (index j = 0; j < 33; ++j) ASSERT_EQ(c.y.get(j), log ? -infinity : 0);
            for (index j = 33; j < 66; ++j) ASSERT_TRUE(std::isfinite(c.y.get(j)));
          });
}

// Finite is not masked, however low: a row of the lowest number is a row of equals.
TEST(softmax, the_lowest_number_is_not_a_mask) {
  for (DType kind : {DType::f32, DType::bf16}) {
    const double lowest = kind == DType::f32 ? -0x1.fffffep127 : -0x1.fep127;
    const auto expect = [&](auto&& run) {
      Tensor<3> x(DType::bf16, {1, 3, 20}), mask(kind, {1, 3, 20}), y(DType::f32, {1, 3, 20});
      x.fill(0), mask.fill(lowest), y.poison();
      mask.set(20, 0);                                         // beside it the lowest weighs nothing
      for (index j = 40; j < 58; ++j) mask.set(j, -infinity);  // beside minus infinity it does
      ASSERT_TRUE(ok(run(Softmax<Host>{.x = x, .mask = mask, .y = y})));
      for (index j = 0; j < 20; ++j) {
        ASSERT_EQ(y.get(j), 1.0f / 20);
        ASSERT_EQ(y.get(20 + j), j == 0);
        ASSERT_EQ(y.get(40 + j), j < 18 ? 0 : 0.5);
      }
    };
    Reference reference;
    expect([&](const auto& op) { return run(reference, op); });
    on_every_backend([&](const std::string&, auto run) { expect(run); });
  }
}

// Two heads' rows beside each other, and heads one after another in y.
TEST(softmax, heads_may_lie_inside_rows) {
  Rng rng(6);
  SoftmaxCase c = softmax_case(DType::f32, DType::f32, {2, 3, 21}, {}, rng);
  SoftmaxCase apart = c;
  Tensor<2> beside(DType::f32, {3, 42});
  for (index k = 0; k < c.x.size(); ++k) beside.set(k / 21 % 3 * 42 + k / 63 * 21 + k % 21, c.x.get(k));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, apart.op())));
  on_every_backend([&](const std::string&, auto run) {
    SoftmaxCase got = c;
    Softmax<Host> op = got.op();
    op.x.data = beside.data<float>(), op.x.strides = {21, 42, 1};
    ASSERT_TRUE(ok(run(op)));
    expect_close(got.y, apart.y, 30);
  });
}

TEST(softmax, in_place) {
  Rng rng(7);
  for (DType type : float_types)
    for (bool log : {false, true}) {
      SoftmaxCase start = softmax_case(type, type, {2, 3, 47}, {}, rng);
      start.log = log;
      add_mask(start, DType::f32, false, true, rng);
      start.add_sink(rng);
      ASSERT_NO_FATAL_FAILURE(compare_softmax_in_place(start));
    }
}

TEST(softmax, huge_logits_and_non_finite_input) {
  const auto expect = [&](DType out, auto&& run) {
    Tensor<3> x(out, {1, 4, 3}), y = x;
    const double rows[12] = {30000, -30000, 30000, 0, std::nan(""), 1, infinity, 0, 1, -infinity, 2, 2};
    for (index k = 0; k < 12; ++k) x.set(k, rows[k]);
    ASSERT_TRUE(ok(run(Softmax<Host>{.x = x, .y = y})));
    EXPECT_EQ(y.get(0), 0.5);
    EXPECT_EQ(y.get(1), 0);
    for (index k = 3; k < 9; ++k) EXPECT_TRUE(std::isnan(y.get(k))) << k;
    EXPECT_EQ(y.get(9), 0);
    EXPECT_EQ(y.get(10), 0.5);
  };
  Reference reference;
  for (DType out : float_types) {
    expect(out, [&](const auto& op) { return run(reference, op); });
    on_every_backend([&](const std::string&, auto run) { expect(out, run); });
  }
}

// By hand: a sink of ln 2 beside two zeros has half of the weight, one of minus infinity none; one far above takes all,
// and one that is no number all of its head.
TEST(softmax, sinks_by_hand) {
  const auto expect = [&](bool log, auto&& run) {
    Tensor<3> x(DType::f32, {5, 1, 2}), y(DType::f32, {5, 1, 2});
    Tensor<1> sink(DType::f32, {5});
    x.fill(0), y.poison();
    sink.set(0, std::log(2.0)), sink.set(1, -infinity), sink.set(2, 100), sink.set(3, infinity),
        sink.set(4, std::nan(""));
    ASSERT_TRUE(ok(run(Softmax<Host>{.x = x, .sink = sink, .y = y, .log = log})));
    for (index k = 0; k < 2; ++k) {
      EXPECT_NEAR(y.get(k), log ? -std::log(4.0) : 0.25, 1e-7);
      EXPECT_NEAR(y.get(2 + k), log ? -std::log(2.0) : 0.5, 1e-7);
      EXPECT_NEAR(y.get(4 + k), log ? -100 : 0, 1e-43);
      EXPECT_TRUE(std::isnan(y.get(6 + k)) && std::isnan(y.get(8 + k)));
    }
  };
  Reference reference;
  for (bool log : {false, true}) {
    expect(log, [&](const auto& op) { return run(reference, op); });
    on_every_backend([&](const std::string&, auto run) { expect(log, run); });
  }
}

TEST(softmax, reference_agrees_with_eigen) {
  Rng rng(8);
  SoftmaxCase c = softmax_case(DType::f32, DType::f32, {1, 3, 77}, {}, rng);
  c.x = Tensor<3>(DType::f32, {1, 3, 77}).uniform(rng, -8, 8);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index r = 0; r < 3; ++r) {
    const Eigen::ArrayXd s = Eigen::Map<Eigen::ArrayXf>(c.x.data<float>() + r * 77, 77).cast<double>();
    const Eigen::ArrayXd e = (s - s.maxCoeff()).exp();
    for (index j = 0; j < 77; ++j) EXPECT_NEAR(c.y.get(r * 77 + j), e(j) / e.sum(), 1e-7 * e(j) / e.sum());
  }
}

TEST(softmax, agrees_with_onnx) {
  INLAY_NEEDS_DATA("onnx_node/LICENSE");
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
  Rng rng(9);
  for (DType type : float_types)
    for (bool log : {false, true})
      for (index n : subnormal_sizes) {
        SoftmaxCase c = softmax_case(type, DType::f32, {1, 3, n}, {}, rng);
        subnormals(c.x, rng);
        for (index j = 1; j < n; ++j) c.x.set(n + j, -85 - 20.0 * static_cast<double>(j) / static_cast<double>(n));
        c.log = log;
        with_and_without_flushing(c, [&](const SoftmaxCase& expected, const SoftmaxCase& got, double lost) {
          const Tensor<3> bounds = softmax_bounds(c, expected.y);
          // A score; or an exponential, a factor and their product.
          expect_close(got.y, expected.y, 1, [&](index k) { return bounds.get(k); }, {.lost = 3 * lost});
        });
      }
}

TEST(softmax, refuses_what_the_contract_does_not_cover) {
  Tensor<3> x(DType::f32, {2, 3, 8}), mask(DType::boolean, {2, 2, 8}), y(DType::f32, {2, 3, 8}),
      half(DType::f16, {2, 3, 8}), narrow(DType::boolean, {2, 3, 7}), heads(DType::boolean, {3, 3, 8}),
      integers(DType::i32, {2, 3, 8}), rows(DType::f32, {2, 4, 8});
  Tensor<1> sink(DType::f32, {3}), half_sink(DType::f16, {2});
  const Refused refused(Softmax<Host>{.x = x, .y = y});
  refused([&](auto& op) { op.mask = mask; }, {"mask", "[2, 2, 8]", "[2, 3, 8]"});
  refused([&](auto& op) { op.mask = heads; }, {"mask", "[3, 3, 8]", "[2, 3, 8]"});
  refused([&](auto& op) { op.mask = narrow; }, {"mask", "7", "8"});
  refused([&](auto& op) { op.mask = half; }, {"mask", "f16", "bool"});
  refused([&](auto& op) { op.sink = sink; }, {"sink", "3", "2"});
  refused([&](auto& op) { op.sink = half_sink; }, {"sink", "f16"});
  refused([&](auto& op) { op.x = integers; }, {"x", "i32"});
  refused([&](auto& op) { op.y = half; }, {"y", "f16", "f32"});
  refused([&](auto& op) { op.y = rows; }, {"y", "[2, 4, 8]", "[2, 3, 8]"});
  refused([&](auto& op) { op.scale = std::numeric_limits<float>::infinity(); }, {"scale", "inf"});
  ConstView<3> shifted = y;
  shifted.data = y.data<float>() + 1;
  refused([&](auto& op) { op.x = shifted; }, {"y", "overlaps", "x"});
}

}  // namespace
}  // namespace inlay::test
