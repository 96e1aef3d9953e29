// Scales and offsets of int8 keys and values.
#include "tests/incre_flash_attention/case.hpp"

namespace inlay::test {
namespace {

// Scales leave the products where their kind and that of the offsets allow it: every pair of the two, on a whole
// register and on a part of one, over more than one split.
TEST(incre_flash_attention, int8_scales_of_every_kind) {
  Rng rng(21);
  const ProblemShape s{
      .batch = 2, .queries = 2, .keys = cpu::decode_split + cpu::key_tile + 9, .kv_heads = 2, .group = 3};
  const index heads = s.kv_heads * s.group;
  // tensor, sequence, head, channel, token, head of a token
  constexpr std::array<std::array<bool, 4>, 6> kinds{
      {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 1, 0}, {0, 0, 1, 1}, {1, 1, 0, 0}, {1, 1, 1, 0}}};
  int turn = 0;
  for (std::size_t scales = 0; scales < kinds.size(); ++scales)
    for (std::size_t offsets = 0; offsets <= kinds.size(); ++offsets) {
      const bool part = ++turn % 2 == 0, featured = turn % 3 != 0;
      ProblemShape shape = s;
      shape.dim = part ? 20 : 32, shape.v_dim = part ? 21 : 16;
      SCOPED_TRACE(describe("scales", scales, "offsets", offsets));
      Case c = make(shape, rng, DType::f32, DType::i8);
      const auto quant = [&](std::size_t kind, index width, double low, double high) {
        const std::array full{s.batch, s.keys, s.kv_heads, width};
        std::array<index, 4> extents{1, 1, 1, 1};
        for (std::size_t d = 0; d < 4; ++d)
          if (kinds[kind][d]) extents[d] = full[d];
        Tensor<4> t(DType::f32, extents);
        t.uniform(rng, low, high);
        return t;
      };
      c.k_scale = quant(scales, shape.dim, 0.002, 0.008);
      c.v_scale = quant(scales, shape.v_dim, 0.002, 0.004);
      if (offsets < kinds.size()) {
        c.k_offset = quant(offsets, shape.dim, -20, 20);
        c.v_offset = quant(offsets, shape.v_dim, -20, 20);
      }
      if (featured) {
        c.softcap = 2;
        c.order = bias_orders[turn / 3 % 3];
        c.causal = true;
        c.bias = {DType::f32, {1, heads, s.queries, s.keys}};
        c.bias.uniform(rng);
        c.mask = {DType::boolean, {s.batch, 1, s.queries, s.keys}};
        c.mask.integers(rng, 0, 1);
      }
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Of a row that sees no key the output is zero, whatever the scales; the rows beside it meet them.
TEST(incre_flash_attention, unseen_int8_scales_reach_no_output) {
  Rng rng(22);
  constexpr index keys = cpu::decode_split + 76;
  Case c =
      make({.queries = 2, .keys = keys, .kv_heads = 1, .group = 2, .dim = 8, .v_dim = 20}, rng, DType::f32, DType::i8);
  c.mask = Tensor<4>(DType::boolean, {1, 1, 2, keys}).fill(0);
  for (index j = 0; j < keys; ++j) c.mask.set(j, 1);  // query 0 sees nothing
  c.v_scale = Tensor<4>(DType::f32, {1, 1, 1, 20}).fill(0.01);
  c.v_scale.set(17, std::nan(""));
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index h = 0; h < 2; ++h)
      for (index d = 0; d < 20; ++d) {
        ASSERT_EQ(got.out.get(0, 0, h, d), 0);
        ASSERT_EQ(std::isnan(got.out.get(0, 1, h, d)), d == 17);
      }
  });
}

TEST(incre_flash_attention, scales_of_masked_tokens_reach_no_output) {
  Rng rng(23);
  constexpr index slots = cpu::decode_split + 40;
  Case clean = make({.keys = slots, .kv_heads = 2, .group = 2, .dim = 10, .v_dim = 12}, rng, DType::f32, DType::i8);
  clean.mask = Tensor<4>(DType::boolean, {1, 1, 1, slots}).fill(0);
  clean.k_scale = clean.v_scale = Tensor<4>(DType::f32, {1, slots, 2, 1}).fill(0.005);
  const std::vector<index> masked{0, 77, cpu::decode_split - 1, cpu::decode_split, slots - 1};
  for (index j : masked) clean.mask.set(j, 1);
  const Expected<Case> expected(clean);
  ASSERT_TRUE(expected.ran());
  for (double bad : {nan, HUGE_VAL}) {
    Case poisoned = clean;
    for (index j : masked)
      for (index h = 0; h < 2; ++h) poisoned.k_scale.set(2 * j + h, bad), poisoned.v_scale.set(2 * j + h, bad);
    on_every_backend([&](const std::string&, auto run) {
      Case got = poisoned;
      ASSERT_TRUE(ok(run(got.op())));
      expected.compare(got);
    });
  }
}

// Codes hold no NaN: it counts as 0, which is the code out_offset. Infinities saturate. A row whose score is NaN is NaN
// throughout; lse says so.
TEST(incre_flash_attention, int8_output_of_what_is_not_finite) {
  Rng rng(24);
  Case start =
      make({.keys = 70, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 20}, rng, DType::f32, DType::f32, DType::i8);
  start.v.set(0, 5, 0, 3, std::nan(""));
  start.v.set(0, 5, 0, 4, HUGE_VAL);
  start.v.set(0, 5, 0, 17, -HUGE_VAL);
  start.k.set(0, 9, 1, 0, std::nan(""));  // the heads 2 and 3
  const auto codes = [&](auto&& run, bool with_offset) {
    Case c = start;
    IncreFlashAttention<Host> op = c.op();
    if (!with_offset) op.out_offset = {};
    ASSERT_TRUE(ok(run(op)));
    const double nothing = with_offset ? -3 : 0;
    for (index h = 0; h < 2; ++h) {
      ASSERT_EQ(c.out.get(0, 0, h, 3), nothing);
      ASSERT_EQ(c.out.get(0, 0, h, 4), 127);
      ASSERT_EQ(c.out.get(0, 0, h, 17), -128);
      ASSERT_TRUE(std::isfinite(c.lse.get(h)));
    }
    for (index h = 2; h < 4; ++h) {
      for (index d = 0; d < 20; ++d) ASSERT_EQ(c.out.get(0, 0, h, d), nothing) << d;
      ASSERT_TRUE(std::isnan(c.lse.get(h)));
    }
  };
  for (bool with_offset : {true, false}) {
    Reference reference;
    codes([&](const auto& op) { return run(reference, op); }, with_offset);
    on_every_backend([&](const std::string&, auto run) { codes(run, with_offset); });
  }
}

}  // namespace
}  // namespace inlay::test
