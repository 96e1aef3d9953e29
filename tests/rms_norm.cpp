#include <Eigen/Core>

#include "tests/support/refused.hpp"
#include "tests/support/rms_norm_case.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
INLAY_RUNS_OF(RmsNorm);

namespace {

TEST(rms_norm, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType weight : {DType::f32, type})
      for (index dim : sizes)
        for (index rows : row_counts)
          for (const Layout& layout : layouts) {
            RmsNormCase c = rms_norm_case(type, weight, type, rows, 1, dim, layout, rng);
            if ((rows + dim) % 2) c.add_residual(rng);
            c.weight_offset = dim % 3 == 0 ? 1.0f : rows == 5 ? -0.3f : 0.0f;
            c.eps = rows == 2 ? 0.25f : rows == 3 ? 0.0f : 1e-5f;
            ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
          }
}

// Four registers at a time, then one, then a part of one: every remainder of the widest.
TEST(rms_norm, every_tail) {
  Rng rng(2);
  constexpr index widest = 16;
  for (DType out : {DType::f32, DType::i8})
    for (index dim = 1; dim <= 8 * widest + 1; ++dim) {
      RmsNormCase c = rms_norm_case(DType::f32, DType::f32, out, 2, 1, dim, {}, rng);
      c.x.set(dim - 1, 2);  // the last one counts
      if (dim % 2) c.add_residual(rng);
      ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
    }
}

TEST(rms_norm, long_rows) {
  Rng rng(3);
  for (DType type : float_types)
    for (DType out : {type, DType::i8})
      for (index dim : {4095, 4096, 16385}) {
        RmsNormCase c = rms_norm_case(type, type, out, 2, 1, dim, {}, rng);
        if (dim == 4096) c.add_residual(rng);
        c.weight_offset = out == DType::i8 ? 0.0f : 1.0f;
        ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
      }
}

TEST(rms_norm, many_rows) {
  Rng rng(4);
  for (DType out : {DType::f32, DType::i8}) {
    RmsNormCase c = rms_norm_case(DType::f32, DType::f32, out, 100, 1, 24, layouts[1], rng);
    for (index k = 0; k < c.x.size(); ++k) c.x.set(k, c.x.get(k) * std::exp2(static_cast<double>(k / 24 % 21) - 10));
    c.add_residual(rng);
    ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
  }
}

TEST(rms_norm, per_head) {
  Rng rng(5);
  for (DType type : float_types)
    for (DType weight : {DType::f32, type})
      for (index heads : {2, 3, 7})
        for (index dim : {1, 59, 64, 65, 128}) {
          RmsNormCase c = rms_norm_case(type, weight, type, 3, heads, dim, layouts[2], rng);
          for (index k = 0; k < c.x.size(); ++k)  // no head's norm is another's
            c.x.set(k, c.x.get(k) * std::exp2(static_cast<double>(k / dim % heads) - 3));
          if (heads % 2) c.add_residual(rng);
          c.weight_offset = dim == 59 ? 1.0f : 0.0f;
          ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
        }
}

// y is x, with and without a residual, one head or several.
TEST(rms_norm, in_place) {
  Rng rng(6);
  for (DType type : float_types)
    for (index heads : {1, 3})
      for (bool fused : {false, true})
        for (float offset : {0.0f, 1.0f}) {
          RmsNormCase start = rms_norm_case(type, DType::f32, type, 5, heads, 111, {}, rng);
          if (fused) start.add_residual(rng);
          start.weight_offset = offset;
          RmsNormCase exact = start.unrounded(), plain = start.without_weights();
          SCOPED_TRACE(describe(start.op()));
          Reference reference;
          ASSERT_TRUE(ok(run(reference, exact.op())));
          ASSERT_TRUE(ok(run(reference, plain.op())));
          const auto expect = [&](auto&& run) {
            RmsNormCase got = start;
            RmsNorm<Host> op = got.op();
            op.y = got.x;
            ASSERT_TRUE(ok(run(op)));
            got.y = got.x;
            expect_rms_norm(start, exact, plain, got);
          };
          expect([&](const auto& op) { return run(reference, op); });
          on_every_backend([&](const std::string&, auto run) { expect(run); });
        }
}

TEST(rms_norm, reference_agrees_with_eigen) {
  Rng rng(7);
  RmsNormCase c = rms_norm_case(DType::f32, DType::f32, DType::f32, 4, 1, 257, {}, rng);
  c.x = Tensor<2>(DType::f32, {4, 257}).uniform(rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd x = Eigen::Map<Matrix>(c.x.data<float>(), 4, 257).cast<double>();
  const Eigen::VectorXd w = Eigen::Map<Eigen::VectorXf>(c.weight.data<float>(), 257).cast<double>();
  for (int t = 0; t < 4; ++t) {
    const Eigen::VectorXd expected =
        x.row(t).transpose().array() / std::sqrt(x.row(t).squaredNorm() / 257 + 1e-5f) * w.array();
    for (int i = 0; i < 257; ++i) EXPECT_NEAR(c.y.get(t * 257 + i), expected(i), 1e-7 * std::abs(expected(i)));
  }
}

TEST(rms_norm, subnormals) {
  Rng rng(8);
  for (DType type : float_types)
    for (bool mixed : {false, true})
      for (index dim : subnormal_sizes) {
        SCOPED_TRACE(mixed ? "mixed with others" : "alone");
        RmsNormCase c = rms_norm_case(type, DType::f32, type, 2, 1, dim, {}, rng);
        subnormals(c.x, rng, mixed);
        c.eps = 1;  // no row is divided by less
        RmsNormCase plain = c.without_weights();
        Reference reference;
        ASSERT_TRUE(ok(run(reference, plain.op())));
        with_and_without_flushing(c, [&](const RmsNormCase& exact, const RmsNormCase& got, double lost) {
          expect_rms_norm(c, exact, plain, got, lost);
        });
      }
}

TEST(rms_norm, refuses_what_the_contract_does_not_cover) {
  Rng rng(9);
  RmsNormCase c = rms_norm_case(DType::f32, DType::f32, DType::f32, 2, 1, 8, {}, rng);
  const Refused refused(c.op());
  Tensor<1> seven(DType::f32, {7}), half(DType::f16, {8}), scales(DType::f32, {2}), three(DType::f32, {3});
  Tensor<2> bf16_row(DType::bf16, {2, 8}), three_rows(DType::f32, {3, 8}), codes(DType::i8, {2, 8});
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  refused([&](auto& op) { op.weight = seven; }, {"weight", "7", "8"});
  refused([&](auto& op) { op.weight = half; }, {"weight", "f16", "f32"});
  refused([&](auto& op) { op.eps = -1; }, {"eps", "-1"});
  refused([&](auto& op) { op.eps = nan; }, {"eps", "nan"});
  refused([&](auto& op) { op.eps = infinity; }, {"eps", "inf"});
  refused([&](auto& op) { op.weight_offset = nan; }, {"weight_offset", "nan"});
  refused([&](auto& op) { op.x.dtype = DType::i32; }, {"x", "i32", "f32"});
  refused([&](auto& op) { op.heads = 3; }, {"heads"});
  refused([&](auto& op) { op.heads = 0; }, {"heads", "0", "1"});
  refused([&](auto& op) { op.heads = 2; }, {"weight", "8", "4"});
  refused([&](auto& op) { op.residual = bf16_row; }, {"residual", "bf16", "f32"});
  refused([&](auto& op) { op.residual = three_rows; }, {"residual", "[3, 8]", "[2, 8]"});
  refused([&](auto& op) { op.residual = c.y; }, {"residual", "overlaps", "y"});
  refused([&](auto& op) { op.residual = c.x; }, {"residual", "overlaps", "x"});
  refused([&](auto& op) { op.y = bf16_row; }, {"y", "bf16"});
  refused([&](auto& op) { op.y = three_rows; }, {"y", "[3, 8]", "[2, 8]"});
  refused([&](auto& op) { op.y = codes; }, {"y_scale", "i8"});
  refused([&](auto& op) { op.y_scale = scales; }, {"y_scale", "i8"});
  refused([&](auto& op) { op.y = codes, op.y_scale = three; }, {"y_scale", "3", "2"});
  refused([&](auto& op) { op.y.data = c.x.data<float>() + 1; }, {"y", "overlaps", "x"});
  refused([&](auto& op) { op.x.strides[1] = 2; }, {"x", "innermost stride 2", "1"});
  refused([&](auto& op) { op.y.data = nullptr; }, {"y", "null"});
  RmsNormCase heads = rms_norm_case(DType::f32, DType::f32, DType::i8, 2, 1, 8, {}, rng);
  const Refused refused_codes(heads.op());
  Tensor<1> four(DType::f32, {4});
  refused_codes([&](auto& op) { op.heads = 2, op.weight = four; }, {"heads", "i8"});
  Tensor<1> half_scales(DType::f16, {2});
  refused_codes([&](auto& op) { op.y_scale = half_scales; }, {"y_scale", "f16"});
}

}  // namespace
}  // namespace inlay::test
