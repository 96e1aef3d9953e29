// Witnesses of the reference: closed forms, and Eigen.
#include <inlay/core/online_softmax.hpp>

#include <Eigen/Core>

#include "tests/flash_attention/case.hpp"

namespace inlay::test {
namespace {

TEST(flash_attention, merged_halves_give_the_whole) {
  Rng rng(11);
  Case c = make({.queries = 3, .keys = 90, .kv_heads = 1, .group = 2, .dim = 16, .v_dim = 16}, rng);
  Reference reference;
  Case whole = c, left = c, right = c;
  ASSERT_TRUE(ok(run(reference, whole.op())));
  FlashAttention<Host> op = left.op();
  op.k = op.k.slice(1, 0, 40), op.v = op.v.slice(1, 0, 40);
  ASSERT_TRUE(ok(run(reference, op)));
  op = right.op();
  op.k = op.k.slice(1, 40, 50), op.v = op.v.slice(1, 40, 50);
  ASSERT_TRUE(ok(run(reference, op)));
  for (index r = 0; r < 6; ++r) {
    const auto both = merge_lse(left.lse.get(r), right.lse.get(r));
    EXPECT_NEAR(both.lse, whole.lse.get(r), 1e-6);
    for (index d = 0; d < 16; ++d)
      EXPECT_NEAR(left.out.memory.get(r * 16 + d) * both.scale_a + right.out.memory.get(r * 16 + d) * both.scale_b,
                  whole.out.memory.get(r * 16 + d), 1e-6);
  }
}

TEST(flash_attention, reference_in_closed_form) {
  Rng rng(12);
  Reference reference;
  Case c = make({.queries = 2, .keys = 33, .kv_heads = 1, .group = 1, .dim = 8, .v_dim = 8}, rng);
  c.q.memory.fill(0);  // equal scores: the mean of V
  ASSERT_TRUE(ok(run(reference, c.op())));
  EXPECT_NEAR(c.lse.get(0), std::log(33.0), 1e-6);
  for (index d = 0; d < 8; ++d) {
    double mean = 0;
    for (index j = 0; j < 33; ++j) mean += c.v.get(0, j, 0, d) / 33;
    EXPECT_NEAR(c.out.get(0, 1, 0, d), mean, 1e-7);
  }
  c = make({.queries = 2, .keys = 1, .kv_heads = 1, .group = 1, .dim = 8, .v_dim = 8}, rng);  // one key: its V
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index d = 0; d < 8; ++d) EXPECT_EQ(c.out.get(0, 1, 0, d), c.v.get(0, 0, 0, d));
  c.sinks = Tensor<1>(DType::f32, {1}).fill(0);  // a sink as high as the key takes half
  c.q.memory.fill(0);
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index d = 0; d < 8; ++d) EXPECT_NEAR(c.out.get(0, 1, 0, d), c.v.get(0, 0, 0, d) / 2, 1e-7);
}

TEST(flash_attention, reference_agrees_with_eigen) {
  Rng rng(13);
  Case c = make({.queries = 7, .keys = 19, .kv_heads = 1, .group = 1, .dim = 24, .v_dim = 10}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd q = Eigen::Map<Matrix>(c.q.memory.data<float>(), 7, 24).cast<double>();
  const Eigen::MatrixXd k = Eigen::Map<Matrix>(c.k.memory.data<float>(), 19, 24).cast<double>();
  const Eigen::MatrixXd v = Eigen::Map<Matrix>(c.v.memory.data<float>(), 19, 10).cast<double>();
  Eigen::MatrixXd p = (q * k.transpose() / std::sqrt(24.0)).array().exp();
  const Eigen::VectorXd sums = p.rowwise().sum();
  const Eigen::MatrixXd out = sums.cwiseInverse().asDiagonal() * (p * v);
  for (int i = 0; i < 7; ++i) {
    EXPECT_NEAR(c.lse.get(i), std::log(sums(i)), 1e-6);
    for (int d = 0; d < 10; ++d) EXPECT_NEAR(c.out.get(0, i, 0, d), out(i, d), 1e-7);
  }
}

}  // namespace
}  // namespace inlay::test
