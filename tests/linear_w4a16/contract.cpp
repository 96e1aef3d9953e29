// The extents that reference and kernels share, one product by hand, and what the contract refuses.
#include "tests/linear_w4a16/case.hpp"
#include "tests/support/refused.hpp"

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
  EXPECT_EQ(w4_steps(9, 6), 2);
  EXPECT_EQ(w4_step_bytes(4), 64);
  EXPECT_EQ(w4_step_bytes(5), 80);
  EXPECT_EQ(w4_step_bytes(6), 96);
  EXPECT_EQ(w4_step_bytes(8), 64);
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
        const index byte =
            bits == 4 ? slot / 8 * 64 + 4 * channel + slot % 8 / 2 : slot / 4 * 64 + 4 * channel + slot % 4;
        c.codes.set(byte, c.codes.get(byte) + (bits == 4 && slot % 2 ? 16 * code : code));
      };
      put_code(0, 0, 3), put_code(0, 7, 15), put_code(0, 9, 4);
      put_code(2, 8, 9), put_code(2, 9, 1), put_code(2, 1, 13);
      c.zeros.fill(0), c.scales.fill(1);
      c.scales.set(16, 0.5);                      // group 1 of channel 0
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

// Upper bits behind the words of a step, byte by byte, in the second of two steps.
TEST(linear_w4a16, upper_bits_by_hand) {
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations})
    for (index bits : {5, 6}) {
      Rng rng(33);
      Case c = make({1, 3, 16, 16, bits}, Form::symmetric, {}, {}, rng);
      c.compute = compute;
      c.x.fill(0), c.scales.fill(1), c.codes.fill(0);
      const index step = bits == 5 ? 80 : 96;
      c.x.set(8, 127), c.x.set(9, 3), c.x.set(13, 2), c.x.set(15, -1);
      c.codes.set(step + 4, 0x5a);  // slots 8 and 9 of channel 1: 10 and 5 below their upper bits
      if (bits == 5) c.codes.set(step + 64 + 1, 0b10100001);  // slots 8, 13 and 15
      if (bits == 6) {
        c.codes.set(step + 64 + 2, 0b00110001);  // slot 8: 1; slot 9: 3
        c.codes.set(step + 64 + 3, 0b10000000);  // slot 15: 2
      }
      const double of_1 = bits == 5 ? 127 * (26 - 16) + 3 * (5 - 16) + 2 * (16 - 16) - (16 - 16)
                                    : 127 * (26 - 32) + 3 * (53 - 32) + 2 * (0 - 32) - (32 - 32);
      on_every_form(compute, [&](const std::string&, auto run) {
        Case got = c;
        ASSERT_TRUE(ok(run(got.op())));
        const double none = -(127 + 3 + 2 - 1) * (1 << (bits - 1));
        EXPECT_EQ(got.y.get(0), none);
        EXPECT_EQ(got.y.get(1), of_1);
        EXPECT_EQ(got.y.get(2), none);
      });
    }
}

// Some of a codebook's values, by hand.
TEST(linear_w4a16, a_codebook_by_hand) {
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations}) {
    Rng rng(32);
    Case c = make({1, 2, 8, 8, 4}, Form::codebook, {}, {}, rng);
    c.compute = compute;
    for (index i = 0; i < 16; ++i) c.codebook.set(i, static_cast<double>(i == 3 ? -128 : i == 15 ? 127 : 5 * i - 40));
    c.x.fill(0);
    c.x.set(0, 127), c.x.set(1, 2), c.x.set(6, -3);
    c.codes.fill(0);
    c.codes.set(0, 3 + 16 * 15);     // slots 0 and 1 of channel 0
    c.codes.set(3, 9);               // slot 6
    c.codes.set(4 + 0, 8 + 16 * 7);  // slots 0 and 1 of channel 1
    c.scales.fill(1);
    c.scales.set(1, 0.25);
    on_every_form(compute, [&](const std::string&, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      EXPECT_EQ(got.y.get(0), 127 * -128 + 2 * 127 - 3 * 5);
      EXPECT_EQ(got.y.get(1), 0.25 * (127 * 0 + 2 * -5 - 3 * -40));
    });
  }
}

// Units of the first 256 slots and of those behind them, by hand.
TEST(linear_w4a16, units_of_super_blocks_by_hand) {
  EXPECT_EQ(w4_super_blocks(0), 0);
  EXPECT_EQ(w4_super_blocks(256), 1);
  EXPECT_EQ(w4_super_blocks(257), 2);
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations}) {
    Rng rng(34);
    Case c = make({1, 2, 264, 128, 4}, Form::offsets, {.scales = DType::i8}, {}, rng);
    c.compute = compute;
    c.x.fill(0), c.codes.fill(0), c.scales.fill(0), c.offsets.fill(0);
    c.x.set(0, 127), c.x.set(128, 127), c.x.set(256, 127);
    c.codes.set(4, 3);            // channel 1: slot 0
    c.codes.set(16 * 64 + 4, 5);  // slot 128
    c.codes.set(32 * 64 + 4, 7);  // slot 256
    c.scales.set(1, -128), c.scales.set(16 + 1, 127), c.scales.set(32 + 1, 2);
    c.offsets.set(1, 4), c.offsets.set(16 + 1, -8), c.offsets.set(32 + 1, 1);
    c.super_scales.fill(9), c.super_offsets.fill(9);
    c.super_scales.set(1, 0.5), c.super_scales.set(16 + 1, 0.25);
    c.super_offsets.set(1, -0.5), c.super_offsets.set(16 + 1, 16);
    on_every_form(compute, [&](const std::string&, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      EXPECT_EQ(got.y.get(0), 0);
      EXPECT_EQ(got.y.get(1), 127 * (3 * -64 - 2 + 5 * 63.5 + 4 + 7 * 0.5 + 16));
    });
  }
}

TEST(linear_w4a16, refuses_what_the_contract_does_not_cover) {
  Rng rng(25);
  Case c = make({2, 17, 64, 32, 4}, Form::zeros, {}, {}, rng, 64);
  c.add_bias(DType::f32, rng);
  const LinearW4a16<Host> good = c.op();
  const Refused refused(good);
  refused([&](auto& op) { op.bits = 7; }, {"bits", "7", "4, 5, 6 or 8"});
  refused([&](auto& op) { op.bits = 5; }, {"codes", "[2, 8, 64]", "[2, 8, 80]"});
  refused([&](auto& op) { op.group = 12; }, {"group", "12", "multiple of 8"});
  refused([&](auto& op) { op.group = -8; }, {"group", "-8"});
  refused([&](auto& op) { op.group = 16; }, {"scales", "[2, 2, 16]", "[2, 4, 16]"});
  refused([&](auto& op) { op.bits = 8; }, {"codes", "[2, 8, 64]", "[2, 16, 64]"});
  Tensor<3> offsets(DType::f32, c.scales.extents());
  refused([&](auto& op) { op.offsets = offsets; }, {"offsets", "zeros"});
  Tensor<1> codebook(DType::i8, {16});
  refused([&](auto& op) { op.codebook = codebook; }, {"codebook", "zeros"});
  const auto with_codebook = [&](auto& op) {
    op.zeros = {};
    op.codebook = codebook;
  };
  refused([&](auto& op) { with_codebook(op), op.offsets = offsets; }, {"codebook", "offsets"});
  refused([&](auto& op) { with_codebook(op), op.codebook.extents[0] = 15; }, {"codebook", "15", "16"});
  refused([&](auto& op) { with_codebook(op), op.codebook.dtype = DType::u8; }, {"codebook", "u8", "i8"});
  refused([&](auto& op) { op.scales.dtype = DType::i8; }, {"scales", "i8", "f16"});
  refused([&](auto& op) { op.y.dtype = DType::bf16; }, {"y", "bf16"});
  refused([&](auto& op) { op.bias.extents[0] = 16; }, {"bias", "16", "17"});
  refused([&](auto& op) { op.y = View<2>(c.x.data<float>(), {2, 17}); }, {"y", "overlaps", "x"});
  refused([&](auto& op) { op.compute = static_cast<W4Compute>(2); }, {"compute", "2", "0..1"});
  Case units = make({2, 17, 300, 32, 4}, Form::offsets, {.scales = DType::i8}, {}, rng);
  const LinearW4a16<Host> whole = units.op();
  const Refused of_units(whole);
  of_units([&](auto& op) { op.group = 0; }, {"scales", "[2, 10, 16]", "[2, 1, 16]"});
  of_units([&](auto& op) { op.super_scales = {}; }, {"scales", "i8", "f32"});
  of_units([&](auto& op) { op.super_offsets = {}; }, {"super_offsets", "missing", "must be given"});
  of_units([&](auto& op) { op.offsets = {}; }, {"super_offsets", "given", "left out"});
  of_units([&](auto& op) { op.scales.dtype = DType::u8; }, {"scales", "u8", "i8"});
  of_units([&](auto& op) { op.offsets.dtype = DType::f16; }, {"offsets", "f16", "i8"});
  of_units([&](auto& op) { op.super_scales.dtype = DType::f32; }, {"super_scales", "f32", "f16"});
  of_units([&](auto& op) { op.super_offsets.dtype = DType::bf16; }, {"super_offsets", "bf16", "f16"});
  of_units([&](auto& op) { op.super_scales.extents[1] = 1; }, {"super_scales", "[2, 1, 16]", "[2, 2, 16]"});
  of_units([&](auto& op) { op.super_offsets.extents[1] = 3; }, {"super_offsets", "[2, 3, 16]", "[2, 2, 16]"});
  for (const index group : {0, 24, 512}) {
    Case others = make({2, 17, 300, group, 4}, Form::symmetric, {}, {}, rng);
    LinearW4a16<Host> op = others.op();
    op.scales.dtype = DType::i8, op.super_scales = whole.super_scales;
    expect_refused(op, {"group", std::to_string(group), "divide 256", "super_scales"});
  }
  Case eight = make({2, 17, 64, 32, 8}, Form::symmetric, {}, {}, rng);
  LinearW4a16<Host> too_wide = eight.op();
  too_wide.codebook = codebook;
  expect_refused(too_wide, {"codebook", "bits is not 4"});
  c.perm.set(5, 64);
  expect_refused(good, {"perm[5]", "64", "-1..63"});
  c.perm.set(5, -2);
  expect_refused(good, {"perm[5]", "-2"});
}

}  // namespace
}  // namespace inlay::test
