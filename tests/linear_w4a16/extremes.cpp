// The ends of integers and floats, rows that are not finite, and what the contract refuses.
#include "tests/linear_w4a16/case.hpp"

namespace inlay::test {
namespace {

const W4Compute both[] = {W4Compute::exact_float, W4Compute::int8_activations};

// -127 * 255 and 127 * 255 over a long row: integer sums neither saturate nor overflow.
TEST(linear_w4a16, int8_extremes) {
  Rng rng(21);
  for (index bits : {4, 8})
    for (index rows : {1, 2, 5})
      for (double sign : {-1.0, 1.0}) {
        Case c = make({rows, 17, 4100, 0, bits}, Form::zeros, {}, {}, rng);
        c.codes.fill(255);
        c.zeros.fill(0);
        c.x.fill(sign);
        c.compute = W4Compute::int8_activations;
        ASSERT_NO_FATAL_FAILURE(compare(c));
        // Even and odd codes of a word with different signs, and the ends of the codes in turn.
        for (index i = 0; i < c.x.size(); ++i) c.x.set(i, i / 2 % 2 ? sign : -sign);
        for (index i = 0; i < c.codes.size(); ++i) c.codes.set(i, i % 3 ? 255 : bits == 4 ? 0x0f : 128);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// Rows whose magnitudes lie far apart: each has a power of its own.
TEST(linear_w4a16, huge_and_tiny_rows) {
  Rng rng(22);
  for (W4Compute compute : both)
    for (index rows : {1, 6, 13})
      for (double magnitude : {0.0, 1e-39, 1e-37, 1e5, 1e30}) {
        Case c = make({rows, 17, 300, 32, rows == 6 ? 8 : 4}, Form::offsets, {}, {}, rng);
        for (index i = 0; i < c.x.size(); ++i) {
          const double of_row[] = {magnitude, 1e30, 1, 1e-30};
          c.x.set(i, c.x.get(i) * of_row[i / 300 % 4]);
        }
        c.compute = compute;
        SCOPED_TRACE(magnitude);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// The power of a row follows from its largest x wherever that lies, the last slot included: from any other the sums
// would overflow.
TEST(linear_w4a16, one_x_is_far_larger_than_the_others) {
  Rng rng(23);
  for (W4Compute compute : both)
    for (index rows : {1, 4})
      for (bool permuted : {false, true})
        for (index k : {33, 131})
          for (index where : {index{0}, index{17}, k - 2, k - 1}) {
            Case c = make({rows, 18, k, 16, 4}, Form::symmetric, {}, {}, rng, permuted ? k : -1);
            for (index i = 0; i < c.x.size(); ++i) c.x.set(i, c.x.get(i) * 1e-20);
            for (index t = 0; t < rows; ++t) c.x.set(t * k + where, t % 2 ? 1.9e20 : -1.9e20);
            c.compute = compute;
            ASSERT_NO_FATAL_FAILURE(compare(c));
          }
}

TEST(linear_w4a16, a_row_that_is_not_finite_stays_so_and_leaves_the_others_alone) {
  Rng rng(24);
  for (W4Compute compute : both)
    for (double bad : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN()})
      for (index where : {0, 41, 99, 100})
        for (index rows : {1, 3, 7}) {
          const Case healthy = make({rows, 33, 101, 32, 4}, Form::symmetric, {}, {}, rng);
          Case start = healthy;
          start.compute = compute;
          start.x.set((rows > 1 ? 101 : 0) + where, bad);
          on_every_form(compute, [&](const std::string& label, auto run) {
            Case got = start, other = healthy;
            other.compute = compute;
            ASSERT_TRUE(ok(run(got.op())));
            ASSERT_TRUE(ok(run(other.op())));
            for (index k = 0; k < got.y.size(); ++k) {
              if (k / 33 != (rows > 1)) {
                ASSERT_EQ(got.y.get(k), other.y.get(k)) << k;
              } else {
                ASSERT_FALSE(std::isfinite(got.y.get(k))) << k;
                // (docs/ops/linear_w4a16.md)
                if (compute == W4Compute::int8_activations && label != "test device") {
                  ASSERT_TRUE(std::isnan(got.y.get(k))) << k;
                }
              }
            }
          });
        }
}

TEST(linear_w4a16, refuses_what_the_contract_does_not_cover) {
  Rng rng(25);
  Case c = make({2, 17, 64, 32, 4}, Form::zeros, {}, {}, rng, 64);
  c.add_bias(DType::f32, rng);
  const LinearW4a16<Host> good = c.op();
  EXPECT_TRUE(ok(check(good)));
  LinearW4a16<Host> op = good;
  op.bits = 5;
  expect_refused(op, {"bits", "5", "4 or 8"});
  op = good;
  op.group = 12;
  expect_refused(op, {"group", "12", "multiple of 8"});
  op.group = -8;
  expect_refused(op, {"group", "-8"});
  op.group = 16;
  expect_refused(op, {"scales", "[2, 2, 16]", "[2, 4, 16]"});
  op = good;
  op.bits = 8;
  expect_refused(op, {"codes", "[2, 8, 64]", "[2, 16, 64]"});
  op = good;
  Tensor<3> offsets(DType::f32, c.scales.extents());
  op.offsets = offsets;
  expect_refused(op, {"offsets", "zeros"});
  op = good;
  op.scales.dtype = DType::i8;
  expect_refused(op, {"scales", "i8", "f16"});
  op = good;
  op.y.dtype = DType::bf16;
  expect_refused(op, {"y", "bf16"});
  op = good;
  op.bias.extents[0] = 16;
  expect_refused(op, {"bias", "16", "17"});
  op = good;
  op.y = View<2>(c.x.data<float>(), {2, 17});
  expect_refused(op, {"y", "overlaps", "x"});
  op = good;
  op.compute = static_cast<W4Compute>(2);
  expect_refused(op, {"compute", "2", "0..1"});
  c.perm.set(5, 64);
  expect_refused(good, {"perm[5]", "64", "-1..63"});
  c.perm.set(5, -2);
  expect_refused(good, {"perm[5]", "-2"});
}

}  // namespace
}  // namespace inlay::test
