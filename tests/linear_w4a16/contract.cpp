// The extents that reference and kernels share, one product by hand, and what the contract refuses.
#include "tests/linear_w4a16/case.hpp"

namespace inlay::test {
namespace {

TEST(linear_w4a16, extents_by_hand) {
  EXPECT_EQ(w4_panels(0), 0);
  EXPECT_EQ(w4_panels(16), 1);
  EXPECT_EQ(w4_panels(17), 2);
  EXPECT_EQ(w4_steps(0, 4), 0);
  EXPECT_EQ(w4_steps(8, 4), 1);
  EXPECT_EQ(w4_steps(9, 4), 2);
  EXPECT_EQ(w4_steps(5, 8), 2);
  EXPECT_EQ(w4_groups(0, 32), 0);
  EXPECT_EQ(w4_groups(64, 32), 2);
  EXPECT_EQ(w4_groups(75, 32), 3);
  EXPECT_EQ(w4_groups(75, 0), 1);
}

// Ten inputs of two groups, three channels: word by word.
TEST(linear_w4a16, one_product_by_hand) {
  for (index bits : {4, 8})
    for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations}) {
      Rng rng(31);
      Case c = make({1, 3, 10, 8, bits}, Form::zeros, {}, {}, rng);
      c.compute = compute;
      c.x.fill(0);
      c.x.set(0, 127), c.x.set(7, 1), c.x.set(8, -127), c.x.set(9, 2);
      c.codes.fill(0);
      const auto put_code = [&](index channel, index slot, int code) {
        // A step is 64 bytes, a channel four of them, a code four bits or eight, from the lowest on.
        const index byte = bits == 4 ? slot / 8 * 64 + 4 * channel + slot % 8 / 2 : slot / 4 * 64 + 4 * channel + slot % 4;
        c.codes.set(byte, c.codes.get(byte) + (bits == 4 && slot % 2 ? 16 * code : code));
      };
      put_code(0, 0, 3), put_code(0, 7, 15), put_code(0, 9, 4);
      put_code(2, 8, 9), put_code(2, 9, 1), put_code(2, 1, 13);
      c.zeros.fill(0), c.scales.fill(1);
      c.scales.set(16, 0.5);                     // group 1 of channel 0
      c.zeros.set(0, 1), c.zeros.set(16 + 2, 2);  // group 0 of channel 0, group 1 of channel 2
      on_every_form(compute, [&](const std::string&, auto run) {
        Case got = c;
        ASSERT_TRUE(ok(run(got.op())));
        EXPECT_EQ(got.y.get(0), 127 * (3 - 1) + (15 - 1) + 0.5 * 2 * 4);
        EXPECT_EQ(got.y.get(1), 0);
        EXPECT_EQ(got.y.get(2), -127 * (9 - 2) + 2 * (1 - 2));
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
